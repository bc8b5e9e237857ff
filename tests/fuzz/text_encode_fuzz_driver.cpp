// Runs the fuzz target without libFuzzer on made-up texts. Usage: text_encode_fuzz [COUNT [SEED]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "mutate.h"
#include "text_fuzz.h"

namespace {

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

char32_t code_point(fuzz::Mutator& mutator) {
  const auto code = static_cast<char32_t>(mutator.below(mutator.below(2) == 0 ? 0x3000 : 0x110000));
  return code >= 0xD800 && code < 0xE000 ? U'a' : code;
}

std::string make(fuzz::Mutator& mutator) {
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

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 20000;
  fuzz::Mutator mutator(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  for (long i = 0; i < count; ++i) try_text_input(make(mutator));
  std::printf("texts: %ld\n", count);
  return 0;
}
