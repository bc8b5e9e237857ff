// An input is a byte that chooses a tokenizer, and a text. Encoding must not fail; byte-level tokenizers must
// decode to the same text; the hand-written matchers must split it as the regular expressions do.
#include <string>
#include <string_view>

#include "../unit/text/tiny_tokenizers.h"
#include "base/utf8.h"
#include "target.h"
#include "text/regex.h"
#include "text/word_matcher.h"

namespace fuzz::tokenizer_encode {
namespace {

using dpo::text::WordPattern;
namespace tiny = dpo::text::tiny;

struct Tokenizer {
  std::unique_ptr<const dpo::text::Pipeline> codec;
  bool lossless;
};

tiny::Json with_pattern(WordPattern pattern, const char* normalizer) {
  tiny::Json json = tiny::gpt2();
  json["pre_tokenizer"] = tiny::sequence(
      "pretokenizers", {tiny::split_by(std::string(pattern_text(pattern))), tiny::byte_level(false)});
  if (normalizer != nullptr) json["normalizer"] = {{"type", normalizer}};
  return json;
}

std::vector<Tokenizer> make_tokenizers() {
  std::vector<Tokenizer> made;
  made.push_back({tiny::load(tiny::gpt2()), true});
  made.push_back({tiny::load(with_pattern(WordPattern::Cl100k, nullptr)), true});
  made.push_back({tiny::load(with_pattern(WordPattern::Qwen2, "NFC")), false});
  made.push_back({tiny::load(with_pattern(WordPattern::Qwen2, "NFKD")), false});
  made.push_back({tiny::load(tiny::llama()), false});
  tiny::Json flags = tiny::gpt2();
  flags["normalizer"] = {{"type", "Lowercase"}};
  flags["added_tokens"][0]["lstrip"] = flags["added_tokens"][0]["rstrip"] = true;
  tiny::Json word = tiny::added(flags["added_tokens"][0]["id"].get<int>() + 1, "XY", false);
  word["single_word"] = word["rstrip"] = true;
  flags["added_tokens"].push_back(word);
  made.push_back({tiny::load(flags), false});
  return made;
}

std::vector<std::size_t> ends_by_hand(WordPattern pattern, std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(pattern, text, at);
    if (end <= at || end > text.size()) fail("a matcher does not move on", text);
    ends.push_back(at = end);
  }
  return ends;
}

void check_matchers(std::string_view text) {
  static const std::pair<WordPattern, dpo::text::Regex> kPatterns[] = {
      {WordPattern::Gpt2, dpo::text::Regex(std::string(pattern_text(WordPattern::Gpt2)), "gpt2")},
      {WordPattern::Cl100k, dpo::text::Regex(std::string(pattern_text(WordPattern::Cl100k)), "cl100k")},
      {WordPattern::Qwen2, dpo::text::Regex(std::string(pattern_text(WordPattern::Qwen2)), "qwen2")}};
  for (const auto& [pattern, regex] : kPatterns) {
    std::vector<std::size_t> ends;
    regex.for_each_match(text, [&](std::size_t, std::size_t end) { ends.push_back(end); });
    if (ends != ends_by_hand(pattern, text)) fail("a matcher differs from its pattern", text);
  }
}

bool try_input(std::string_view input) {
  static const std::vector<Tokenizer> kTokenizers = make_tokenizers();
  if (input.empty()) return false;
  const Tokenizer& tokenizer = kTokenizers[static_cast<unsigned char>(input[0]) % kTokenizers.size()];
  const std::string text = dpo::replace_invalid_utf8(input.substr(1));
  const auto ids = tiny::encode(*tokenizer.codec, text);
  const std::string decoded = tokenizer.codec->decode(ids, false);
  if (tokenizer.lossless && decoded != text) fail("decoding gives another text", text);
  if (!dpo::is_valid_utf8(decoded)) fail("decoding gave invalid UTF-8", text);
  check_matchers(text);
  return decoded == text;
}

const char* const kPieces[] = {
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "\u00A0",
    "\u2003",
    "\u3000",
    "\u180E",
    "\u200B",
    "\u2028",
    "'s",
    "'LL",
    "'ve",
    "'",
    "'\u017F",
    "hello",
    "he",
    "World",
    "a",
    "x",
    "X",
    "1",
    "12",
    "1234",
    "\u0663",
    "\u00BD",
    "\u2167",
    "é",
    "e\u0301",
    "\u0301",
    "漢字",
    "\uAC00",
    "\u1100\u1161",
    "ß",
    "İ",
    "😀",
    "👩\u200D👧",
    "<|end|>",
    "<s>",
    "</s>",
    "\u2581",
    "\u2581\u2581",
    ".",
    "!!!",
    "_",
    "-",
    "\xFF",
    "\xE2\x82",
    "\xF0\x9F\x98",
    "\xED\xA0\x80",
    "\xC0\xAF",
    "\uFFFD",
    "\U0010FFFF",
    "\U00011938",
    "\u0345",
};

char32_t code_point(Mutator& mutator) {
  const auto code = static_cast<char32_t>(mutator.below(mutator.below(2) == 0 ? 0x3000 : 0x110000));
  return code >= 0xD800 && code < 0xE000 ? U'a' : code;
}

std::string make(Mutator& mutator) {
  std::string text(1, static_cast<char>(mutator.below(256)));
  for (std::size_t i = mutator.below(12); i > 0; --i) {
    switch (mutator.below(6)) {
      case 0: text.push_back(static_cast<char>(mutator.below(256))); break;
      case 1: dpo::append_utf8(text, code_point(mutator)); break;
      case 2: {
        const std::string piece = mutator.pick(kPieces);
        for (std::size_t n = mutator.below(mutator.below(100) == 0 ? 300 : 6); n > 0; --n) text += piece;
        break;
      }
      default: text += mutator.pick(kPieces);
    }
  }
  return text;
}

const Registered kTarget({"tokenizer_encode", make, try_input});

}  // namespace
}  // namespace fuzz::tokenizer_encode
