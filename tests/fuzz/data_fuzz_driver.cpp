// Runs the fuzz target without libFuzzer on a fixed series of inputs: valid files, spoilt by mutations that
// know the formats. Usage: data_fuzz [COUNT [SEED]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "data_fuzz.h"
#include "mutate.h"

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

std::string rows(fuzz::Mutator& mutator, bool array) {
  std::string text = array ? "[" : "";
  for (std::size_t n = 1 + mutator.below(3); n > 0; --n)
    text += mutator.pick(kRows) + (n > 1 && array ? ",\n" : array ? "" : "\n");
  return text + (array ? "]" : "");
}

std::string make(fuzz::Mutator& mutator, RowFormat format) {
  std::string text =
      format == RowFormat::Csv ? mutator.pick(kCsv) : rows(mutator, format == RowFormat::JsonArray);
  mutator.mutate(text, kTokens, 6);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 20000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  fuzz::Mutator mutator(seed);
  long runs[3] = {0, 0, 0};
  long accepted[3] = {0, 0, 0};
  for (long i = 0; i < count; ++i) {
    const auto format = static_cast<RowFormat>(i % 3);
    ++runs[i % 3];
    accepted[i % 3] += try_rows(format, make(mutator, format));
  }
  std::printf("JSON lines: %ld, gave a prompt %ld; JSON arrays: %ld, %ld; CSV: %ld, %ld\n", runs[0],
              accepted[0], runs[1], accepted[1], runs[2], accepted[2]);
  return accepted[0] > 0 && accepted[1] > 0 && accepted[2] > 0 ? 0 : 1;
}
