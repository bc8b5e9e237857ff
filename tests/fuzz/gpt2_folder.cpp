// An input is a vocab.json, a merges.txt and a tokenizer_config.json, separated by zero bytes. They are
// rejected with a UserError, or encode and decode any text.
#include <array>

#include "base/utf8.h"
#include "target.h"
#include "temp_folder.h"
#include "text/tokenizer.h"
#include "tokens.h"

namespace fuzz::gpt2_folder {
namespace {

void try_texts(const dpo::text::Tokenizer& tokenizer) {
  for (const std::string_view text : {"Hello  world, it's 12\r\n", "é漢字😀<|endoftext|>", "\xff hello", ""}) {
    const auto ids = tokenizer.encode(text);
    for (const auto id : ids)
      if (id < 0 || id >= tokenizer.size()) fail("an id outside of the vocabulary", std::to_string(id));
    const std::string decoded = tokenizer.decode(ids, false);
    if (!dpo::is_valid_utf8(decoded)) fail("decoding gave invalid UTF-8", decoded);
  }
}

bool try_input(std::string_view input) {
  static const TempFolder kFolder;
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer_config.json"}) {
    const std::size_t end = std::min(input.find('\0'), input.size());
    kFolder.write(name, input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  try {
    try_texts(dpo::text::Tokenizer::load(kFolder.path()));
    return true;
  } catch (const dpo::UserError& error) {
    if (!dpo::is_valid_utf8(error.what())) fail("a message that is not UTF-8", error.what());
    return false;
  }
}

const std::string kVocabularies[] = {
    R"({"h": 0, "e": 1, "l": 2, "o": 3, "he": 4, "ll": 5, "hell": 6, "hello": 7, "\u0120": 8, "\u0120w": 9, "w": 10,
        "1": 11, "2": 12, "12": 13, "<|endoftext|>": 14})",
    R"({"a": 0, "b": 1, "ab": 2, "\u00c3": 3, "\u00a9": 4, "\u00c3\u00a9": 5})",
};
const std::string kMerges[] = {
    "#version: 0.2\nh e\nl l\nhe ll\nhell o\n\u0120 w\n1 2\n",
    "a b\r\n\u00c3 \u00a9\r\n",
    "#version: 0.2\n",
};
const std::string kConfigs[] = {
    R"({"add_bos_token": true, "add_prefix_space": true, "bos_token": "<|endoftext|>", "eos_token": "e"})",
    R"({"added_tokens_decoder": {"14": {"content": "<|endoftext|>", "special": true, "lstrip": true}},
        "unk_token": {"content": "<unk>", "normalized": true}, "pad_token": "<pad>"})",
    "{}",
};
const Tokens kTokens =
    json_tokens({"4000000000", "1e9", "\r\n", "  ", "\"he\": 4,", "\"x\": ", "\xc3", "#", "#version", "h e\n",
                 "he", "\"bos_token\": ", "\"content\": \"\"", "\"14\": ", "\"lstrip\": "});

std::string make(Mutator& mutator) {
  const std::size_t which = mutator.below(2);
  std::string parts[] = {kVocabularies[which], mutator.below(4) == 0 ? mutator.pick(kMerges) : kMerges[which],
                         mutator.pick(kConfigs)};
  for (std::string& part : parts)
    if (mutator.below(2) == 0) mutator.mutate(part, kTokens, 4);
  return parts[0] + '\0' + parts[1] + '\0' + parts[2];
}

const Registered kTarget({"gpt2_folder", make, try_input});

}  // namespace
}  // namespace fuzz::gpt2_folder
