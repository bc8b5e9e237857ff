// Runs the fuzz target without libFuzzer on a fixed series of inputs: valid files, spoilt by mutations that
// know the formats. Usage: data_fuzz [COUNT [SEED]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "data_fuzz.h"

namespace {

using namespace std::string_literals;

const std::string kRows[] = {
    R"({"chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "\n\nHuman: a\n\nAssistant: c"})",
    R"({"prompt": "q", "chosen": "é", "rejected": "\u00e8\ud83d\ude00"})",
    R"({"chosen": "The sky is blue", "rejected": "The sky is black"})",
    R"({"prompt": "q", "responses": ["a", "b", "c"], "scores": [1, 2.5, -3e2]})",
    R"({"prompt": "q", "responses": ["a", "b"], "ranking": [2, 1]})",
    R"({"history": "h", "human_ref_A": "a", "human_ref_B": "b", "score_A": 4, "score_B": 1, "labels": 1})",
    R"({"question": "<p>q &amp; r</p>", "answers": [{"text": "<pre><code>x</code></pre>", "pm_score": 1}, )"
    R"({"text": "<p>a<br>b", "pm_score": 0}]})",
    R"({"prompt": [{"role": "user", "content": "hi"}], "chosen": [], "rejected": null})",
};

const std::string kCsv[] = {
    "prompt,chosen,rejected\nq,a,b\n\"x, \"\"y\"\"\",\"line\nend\",c\n",
    "chosen,rejected\r\nsame a,same b\r\n",
    "question,chosen,rejected\nq,a,b\n\n,,\n",
};

const std::string kTokens[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\n",
    "\r\n",
    "\r",
    "null",
    "true",
    "1e999",
    "-0",
    "\\u0000",
    "\\ud800",
    "\\n",
    "\xc3\xa9",
    "\xff",
    "\xc3",
    "\xed\xa0\x80",
    "\0"s,
    "\"\"",
    "\t",
    " ",
    "prompt",
    "chosen",
    "rejected",
    "responses",
    "scores",
    "role",
    "content",
    "<p>",
    "</p>",
    "<code>",
    "<",
    ">",
    "&#",
    "&amp",
    "<!--",
    "-->",
    "</",
    "&#x110000;",
    "<br/>",
    "<script>",
    "\xef\xbb\xbf",
    "\n\nAssistant:",
    "\\n\\nAssistant:",
    "0",
    "9223372036854775808",
    "\xf0\x9f\x98\x80",
};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string make(RowFormat format) {
    std::string text = format == RowFormat::Csv ? pick(kCsv) : rows(format == RowFormat::JsonArray);
    for (std::size_t rounds = below(6); rounds > 0; --rounds) mutate(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  template <std::size_t N>
  const std::string& pick(const std::string (&list)[N]) {
    return list[below(N)];
  }

  std::string rows(bool array) {
    std::string text = array ? "[" : "";
    for (std::size_t n = 1 + below(3); n > 0; --n)
      text += pick(kRows) + (n > 1 && array ? ",\n" : array ? "" : "\n");
    return text + (array ? "]" : "");
  }

  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(text.size() - at, 12) + 1);
    switch (below(7)) {
      case 0: text.insert(at, pick(kTokens)); break;
      case 1: text.replace(at, length, pick(kTokens)); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(below(text.size() + 1), std::string(text, at, length)); break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 5: text.resize(at); break;
      case 6:
        for (std::size_t n = below(100) == 0 ? 3000 : below(30); n > 0; --n) text.insert(at, pick(kTokens));
        break;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 20000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  Mutator mutator(seed);
  long runs[3] = {0, 0, 0};
  long accepted[3] = {0, 0, 0};
  for (long i = 0; i < count; ++i) {
    const auto format = static_cast<RowFormat>(i % 3);
    ++runs[i % 3];
    accepted[i % 3] += try_rows(format, mutator.make(format));
  }
  std::printf("JSON lines: %ld, gave a prompt %ld; JSON arrays: %ld, %ld; CSV: %ld, %ld\n", runs[0],
              accepted[0], runs[1], accepted[1], runs[2], accepted[2]);
  return accepted[0] > 0 && accepted[1] > 0 && accepted[2] > 0 ? 0 : 1;
}
