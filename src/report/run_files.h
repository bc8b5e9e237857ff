// The files of a run folder that a report is made from. A report is also made while the run writes, or after
// a crash: what is missing or damaged is left out.
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

// A line of eval/step-N.jsonl: an example of the evaluation, with a value for each of its responses.
struct EvaluatedExample {
  std::int64_t example = 0;
  double loss = 0;
  std::vector<double> logps = {}, rewards = {};
  bool desirable = true;
};

std::vector<EvaluatedExample> read_evaluation(const std::filesystem::path& file);

// A line of eval_examples.jsonl: the texts of such an example, the preferred response first.
struct ExampleText {
  std::string prompt;
  std::vector<std::string> responses = {};
};

// The texts of these examples; those of others are not kept, since there may be many.
std::map<std::int64_t, ExampleText> read_texts(const std::filesystem::path& file,
                                               const std::set<std::int64_t>& wanted);

// The prompt of the first example; empty if there is none.
std::string first_prompt(const std::filesystem::path& file);

// The examples whose prompt or a response contains a text; upper and lower case of ASCII letters are the
// same.
std::set<std::int64_t> find_texts(const std::filesystem::path& file, const std::string& text);

// Whether a text contains another, in that sense.
bool contains_text(const std::string& text, const std::string& part);

// A line of samples/step-N.jsonl.
struct SampleLine {
  std::string prompt, policy;
  std::optional<std::string> reference;
};

std::vector<SampleLine> read_samples(const std::filesystem::path& file, std::size_t most);

// The N of all step-N.jsonl in a folder, in order.
std::vector<std::int64_t> steps_in(const std::filesystem::path& folder);
std::filesystem::path step_file(const std::filesystem::path& folder, std::int64_t step);

// log.txt: how the run ended, and its warnings.
struct LogFacts {
  enum class Status { unknown, finished, stopped, failed };  // unknown: it is running, or was killed
  Status status = Status::unknown;
  std::string reason = {};  // the line that says so
  std::vector<std::string> warnings = {};
};

// What one more line of it says.
void add_log_line(LogFacts& facts, std::string_view line);

// plan.json or environment.json; null if there is none.
nlohmann::json read_object(const std::filesystem::path& file);

}  // namespace dpo::report
