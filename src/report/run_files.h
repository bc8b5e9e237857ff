// Reads the files of a run folder for a report. A report can be made while the run writes or after a crash,
// so missing or damaged parts are left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace dpo::report {

// A line of eval/step-N.jsonl: one example of the evaluation, with a value for each of its responses.
struct EvaluatedExample {
  std::int64_t example = 0;
  double loss = 0;
  std::vector<double> logps = {}, rewards = {};
  bool desirable = true;
};

std::vector<EvaluatedExample> read_evaluation(const std::filesystem::path& file);

// A line of eval_examples.jsonl: the texts of one evaluated example, the preferred response first.
struct ExampleText {
  std::string prompt;
  std::vector<std::string> responses = {};
};

// Returns the texts of the wanted examples only, since a file may have many.
std::map<std::int64_t, ExampleText> read_texts(const std::filesystem::path& file,
                                               const std::set<std::int64_t>& wanted);

// Returns the prompt of the first example, or "" if there is none.
std::string first_prompt(const std::filesystem::path& file);

// Returns the examples whose prompt or responses contain a text, ignoring the case of ASCII letters.
std::set<std::int64_t> find_texts(const std::filesystem::path& file, const std::string& text);

// Returns true if `text` contains `part`, ignoring the case of ASCII letters.
bool contains_text(const std::string& text, const std::string& part);

// A line of samples/step-N.jsonl.
struct SampleLine {
  std::string prompt, policy;
  std::optional<std::string> reference;
};

std::vector<SampleLine> read_samples(const std::filesystem::path& file, std::size_t most);

// Returns the N of all step-N.jsonl in a folder, in order.
std::vector<std::int64_t> steps_in(const std::filesystem::path& folder);
std::filesystem::path step_file(const std::filesystem::path& folder, std::int64_t step);

// Facts from log.txt: how the run ended, and its warnings.
struct LogFacts {
  enum class Status { unknown, finished, stopped, failed };  // unknown: still running, or killed
  Status status = Status::unknown;
  std::string reason = {};  // the log line that reports the end
  std::vector<std::string> warnings = {};
};

// Updates `facts` with one more line of log.txt.
void add_log_line(LogFacts& facts, std::string_view line);

// Reads plan.json or environment.json; null if the file is missing.
nlohmann::json read_object(const std::filesystem::path& file);

}  // namespace dpo::report
