// An input is a file of rows: JSON lines, a JSON array or CSV. It is read, or rejected with a UserError of
// one printable line. Skipping bad rows gives no error if only rows are bad. Every prompt is valid UTF-8,
// with pairs of its own responses.
#include <algorithm>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "data/columns.h"
#include "data/formats.h"
#include "memory_file.h"
#include "rows.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::rows {
namespace {

using dpo::data::BadRows;
using dpo::data::PromptText;
using dpo::data::PromptTexts;
using dpo::data::Value;

void check_text(const std::string& text) {
  if (!dpo::is_valid_utf8(text)) fail("a text that is not UTF-8", text);
}

void check_prompt(const PromptText& prompt) {
  check_text(prompt.prompt);
  for (const std::string& response : prompt.responses) check_text(response);
  if (prompt.responses.empty() || prompt.sft_target >= prompt.responses.size())
    fail("no target", prompt.prompt);
  for (const auto& pair : prompt.pairs)
    if (std::max(pair.chosen, pair.rejected) >= prompt.responses.size())
      fail("a pair without its responses", prompt.prompt);
  for (const auto& ranking : prompt.rankings)
    if (ranking.responses.size() < 2 || std::ranges::max(ranking.responses) >= prompt.responses.size() ||
        !(ranking.weight >= 0))
      fail("a ranking without its responses", prompt.prompt);
}

// Gives the row to the reader of each kind of data set, which accepts or rejects it.
void add_everywhere(const Value& row, PromptTexts& texts) {
  const auto attempt = [&](auto add) {
    try {
      add(Value(row));
    } catch (const dpo::data::BadRow& problem) {
      check_message(problem.what());
    }
  };
  attempt([&](Value&& copy) { add_hh_row(std::move(copy), texts); });
  attempt([&](Value&& copy) { add_shp_row(std::move(copy), texts); });
  attempt([&](Value&& copy) { add_se_row(std::move(copy), texts); });
  const auto read = [&](const Value& copy, const dpo::data::ColumnNames& names) {
    texts.append(read_by_columns(copy, names, dpo::config::TrainOn::assistant));
  };
  attempt([&](Value&& copy) { read(copy, {}); });
  attempt([&](Value&& copy) { read(copy, {{"prompt", "question"}}); });
}

}  // namespace

bool try_reader(Reader read, std::string_view input) {
  const MemoryFile file(input);
  PromptTexts texts;
  BadRows bad(true);
  const bool whole = accepts([&] {
    read(file.path(), [&](std::vector<dpo::data::Row>&& rows) {
      for (const dpo::data::Row& row : rows)
        if (row.problem.empty())
          add_everywhere(row.value, texts);
        else
          bad.add(file.path(), row.line, row.problem);
      return true;
    });
  });
  if (!whole && read == dpo::data::read_json_lines) fail("a bad line was not skipped");
  for (const std::string& example : bad.examples()) check_message(example);
  const auto prompts = std::move(texts).take();
  for (const PromptText& prompt : prompts) check_prompt(prompt);
  return !prompts.empty();
}

namespace {

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

const Tokens kTokens = json_tokens({"\r\n",
                                    "\r",
                                    "\\n",
                                    "\xc3",
                                    "\xed\xa0\x80",
                                    "\"\"",
                                    "\t",
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
                                    "\n\nAssistant:",
                                    "\\n\\nAssistant:",
                                    "\xf0\x9f\x98\x80"});

std::string rows(Mutator& mutator, bool array) {
  std::string text = array ? "[" : "";
  for (std::size_t n = 1 + mutator.below(3); n > 0; --n)
    text += mutator.pick(kRows) + (n > 1 && array ? ",\n" : array ? "" : "\n");
  return text + (array ? "]" : "");
}

std::string mutated(Mutator& mutator, std::string text) {
  mutator.mutate(text, kTokens, 6);
  return text;
}

std::string make_lines(Mutator& mutator) { return mutated(mutator, rows(mutator, false)); }
std::string make_array(Mutator& mutator) { return mutated(mutator, rows(mutator, true)); }
std::string make_csv(Mutator& mutator) { return mutated(mutator, mutator.pick(kCsv)); }

bool try_lines(std::string_view input) { return try_reader(dpo::data::read_json_lines, input); }
bool try_array(std::string_view input) { return try_reader(dpo::data::read_json_array, input); }
bool try_csv(std::string_view input) { return try_reader(dpo::data::read_csv, input); }

const Registered kLines({"json_lines", make_lines, try_lines});
const Registered kArray({"json_array", make_array, try_array});
const Registered kCsvTarget({"csv", make_csv, try_csv});

}  // namespace
}  // namespace fuzz::rows
