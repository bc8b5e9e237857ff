// An input is a tokenizer.json. It is rejected with a UserError of printable lines, or encodes and decodes
// any text.
#include <string>
#include <string_view>

#include "../unit/text/tiny_tokenizers.h"
#include "base/error.h"
#include "base/utf8.h"
#include "target.h"

namespace fuzz::tokenizer_json {
namespace {

void try_texts(const dpo::text::Codec& codec) {
  for (const std::string_view text :
       {"Hello  world, it's 12 o'clock\r\n", "\u2581a b é \u0301漢字😀<s></s>[X]", " ", ""}) {
    const auto ids = dpo::text::tiny::encode(codec, text, true);
    for (const auto id : ids)
      if (id < 0 || id >= codec.size()) fail("an id outside of the vocabulary", std::to_string(id));
    const std::string decoded = codec.decode(ids, false);
    if (!dpo::is_valid_utf8(decoded)) fail("decoding gave invalid UTF-8", decoded);
  }
}

bool try_input(std::string_view input) {
  try {
    const auto codec = dpo::text::tiny::load(std::string(input));
    try_texts(*codec);
    return true;
  } catch (const dpo::UserError& error) {
    for (const std::string& problem : error.problems())
      if (problem.empty() || !dpo::is_valid_utf8(problem)) fail("a bad message", problem);
    return false;
  }
}

using dpo::text::tiny::Json;
namespace tiny = dpo::text::tiny;

// Values to try in a field.
const char* const kValues[] = {
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "256",
    "4000000000",
    "1e99",
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "[]",
    "{}",
    "[[]]",
    R"({"type":"NFC"})",
    R"({"type":"NFD"})",
    R"({"type":"NFKC"})",
    R"({"type":"NFKD"})",
    R"({"type":"Lowercase"})",
    R"({"type":"Strip","strip_left":true,"strip_right":true})",
    R"({"type":"Prepend","prepend":"x"})",
    R"({"type":"Replace","pattern":{"Regex":"[ab]|\\s+$"},"content":"c"})",
    R"({"type":"Replace","pattern":{"String":"a"},"content":""})",
    R"({"type":"Split","pattern":{"Regex":"(a|b)*|\\p{L}{2}"},"behavior":"MergedWithNext","invert":false})",
    R"({"type":"Split","pattern":{"Regex":"(?:x(?=b)|[^\\s\\p{N}])+?"},"behavior":"Contiguous","invert":true})",
    R"({"type":"Split","pattern":{"String":" "},"behavior":"Removed","invert":true})",
    R"({"type":"Digits","individual_digits":true})",
    R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})",
    R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})",
    R"({"type":"Metaspace","replacement":"_","add_prefix_space":true})",
    R"({"type":"Fuse"})",
    R"({"type":"WordPiece"})",
    R"({"type":"Sequence","normalizers":[],"pretokenizers":[],"decoders":[],"processors":[]})",
    R"({"type":"ByteFallback"})",
    R"({"type":"Strip","content":"é","start":2,"stop":3})",
    R"(["a","b"])",
    R"("a b")",
    R"({"Regex":"\\p{Lx}"})",
    R"({"Regex":"("})",
    R"({"Regex":"[[:alpha:]]"})",
    R"({"String":"b"})",
    R"("Isolated")",
    R"("never")",
    R"("Unigram")",
    R"({"id":17,"content":" x","lstrip":true,"rstrip":true,"single_word":true,"special":false})",
};

const std::string kBytes[] = {"{", "}", "[", "]", "\"", ",", ":", "\\", "\\u", "-", "\xff"};

// Walks down to a random value and replaces, removes or repeats it.
void change_value(Mutator& mutator, Json& file) {
  Json* at = &file;
  while (at->is_structured() && !at->empty() && mutator.below(4) != 0) {
    auto child = at->begin();
    std::advance(child, static_cast<std::ptrdiff_t>(mutator.below(std::min<std::size_t>(at->size(), 12))));
    if (mutator.below(8) == 0) {
      at->erase(child);
      return;
    }
    at = &*child;
  }
  const Json value = Json::parse(mutator.pick(kValues));
  if (at->is_array() && mutator.below(2) == 0)
    at->push_back(value);
  else
    *at = value;
}

// Returns a tokenizer whose normalizer and decoder double every text forty times.
Json doubling(Json file) {
  const std::vector<Json> steps(40,
                                {{"type", "Replace"}, {"pattern", {{"Regex", "[a-z]"}}}, {"content", "aa"}});
  file["normalizer"] = tiny::sequence("normalizers", steps);
  file["decoder"] = tiny::sequence("decoders", steps);
  return file;
}

std::string make(Mutator& mutator) {
  // The tokenizers are small, so that a million of them take minutes.
  static const Json kGpt2 =
      tiny::gpt2({"h", "e", "l", "o", "w", "1", "2", "a", "b", dpo::text::to_byte_level(" ")});
  static const Json kSeeds[] = {kGpt2, kGpt2, kGpt2, tiny::llama(4), tiny::llama(4), doubling(kGpt2)};
  Json file = mutator.pick(kSeeds);
  for (std::size_t i = mutator.below(4); i > 0; --i) change_value(mutator, file);
  std::string text = file.dump();
  if (mutator.below(8) == 0) mutator.mutate(text, kBytes, 4);
  if (mutator.below(5000) == 0) text.insert(mutator.below(text.size() + 1), std::string(100000, '['));
  return text;
}

const Registered kTarget({"tokenizer_json", make, try_input});

}  // namespace
}  // namespace fuzz::tokenizer_json
