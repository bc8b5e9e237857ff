#include "report/run_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/parse_json.h"
#include "base/utf8.h"

namespace dpo::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Opens regular files only, because a pipe in a shared folder would block the reader.
std::ifstream open_file(const fs::path& file) {
  std::error_code none;
  return fs::is_regular_file(file, none) ? std::ifstream(file) : std::ifstream();
}

// Calls `use` with every line that is a JSON object, until `use` returns false.
void for_objects(const fs::path& file, const std::function<bool(const json&)>& use) {
  std::ifstream lines = open_file(file);
  for (std::string line; std::getline(lines, line);)
    if (const json object = parse_json(line); object.is_object() && !use(object)) return;
}

std::string text_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Returns true for a number that is safe to calculate with: differences of larger ones may be infinite.
bool is_usable_number(const json& value) {
  return value.is_number() && std::abs(value.get<double>()) < 1e100;
}

std::vector<double> numbers_at(const json& object, const char* name) {
  std::vector<double> numbers;
  if (const auto found = object.find(name); found != object.end() && found->is_array())
    for (const json& number : *found)
      if (is_usable_number(number)) numbers.push_back(number.get<double>());
  return numbers;
}

// Returns the index of an example in its split, or -1 if the line has none.
std::int64_t example_at(const json& object) {
  const auto found = object.find("example");
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

ExampleText example_text(const json& line) {
  ExampleText text{.prompt = text_at(line, "prompt")};
  if (const auto responses = line.find("responses"); responses != line.end() && responses->is_array())
    for (const json& response : *responses)
      if (response.is_string()) text.responses.push_back(response.get<std::string>());
  return text;
}

// Returns the message of a log line such as "2026-11-17 04:25:00  done: ...", or nothing if the line
// continues another one.
std::string_view message_of_line(std::string_view line) {
  constexpr std::string_view kTime = "0000-00-00 00:00:00  ";
  if (line.size() < kTime.size()) return {};
  for (std::size_t i = 0; i < kTime.size(); ++i)
    if (kTime[i] == '0' ? !is_ascii_digit(line[i]) : line[i] != kTime[i]) return {};
  return line.substr(kTime.size());
}

}  // namespace

std::vector<EvaluatedExample> read_evaluation(const fs::path& file) {
  std::vector<EvaluatedExample> examples;
  for_objects(file, [&](const json& line) {
    EvaluatedExample example{.example = example_at(line),
                             .logps = numbers_at(line, "logps"),
                             .rewards = numbers_at(line, "rewards")};
    if (const auto loss = line.find("loss"); loss != line.end() && is_usable_number(*loss))
      example.loss = loss->get<double>();
    if (const auto good = line.find("desirable"); good != line.end() && good->is_boolean())
      example.desirable = good->get<bool>();
    const bool whole = !example.rewards.empty() && example.rewards.size() == example.logps.size();
    if (whole && example.example >= 0) examples.push_back(std::move(example));
    return true;
  });
  return examples;
}

std::map<std::int64_t, ExampleText> read_texts(const fs::path& file, const std::set<std::int64_t>& wanted) {
  std::map<std::int64_t, ExampleText> texts;
  for_objects(file, [&](const json& line) {
    if (!wanted.contains(example_at(line))) return true;
    texts[example_at(line)] = example_text(line);
    return texts.size() < wanted.size();
  });
  return texts;
}

std::string first_prompt(const fs::path& file) {
  std::string prompt;
  for_objects(file, [&](const json& line) {
    prompt = text_at(line, "prompt");
    return false;
  });
  return prompt;
}

bool contains_text(const std::string& text, const std::string& part) {
  const auto lower = [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return !std::ranges::search(text, part, {}, lower, lower).empty() || part.empty();
}

std::set<std::int64_t> find_texts(const fs::path& file, const std::string& text) {
  std::set<std::int64_t> found;
  for_objects(file, [&](const json& line) {
    const ExampleText example = example_text(line);
    const auto matches = [&](const std::string& each) { return contains_text(each, text); };
    if (matches(example.prompt) || std::ranges::any_of(example.responses, matches))
      found.insert(example_at(line));
    return true;
  });
  return found;
}

std::vector<SampleLine> read_samples(const fs::path& file, std::size_t most) {
  std::vector<SampleLine> samples;
  for_objects(file, [&](const json& line) {
    const auto text = [&](const char* name, const char* cut) {
      return text_at(line, name) + (line.contains(cut) ? " [cut]" : "");
    };
    SampleLine sample{text_at(line, "prompt"), text("policy", "policy_cut"), std::nullopt};
    if (line.contains("reference")) sample.reference = text("reference", "reference_cut");
    samples.push_back(std::move(sample));
    return samples.size() < most;
  });
  return samples;
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  constexpr std::string_view kBegin = "step-", kEnd = ".jsonl";
  std::vector<std::int64_t> steps;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= kBegin.size() + kEnd.size())
      continue;
    const char* const begin = name.data() + kBegin.size();
    const char* const end = name.data() + name.size() - kEnd.size();
    std::int64_t step = 0;
    if (const auto parsed = std::from_chars(begin, end, step);
        parsed.ec == std::errc() && parsed.ptr == end && step >= 0)
      steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

fs::path step_file(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("step-{}.jsonl", step);
}

void add_log_line(LogFacts& facts, std::string_view line) {
  using Status = LogFacts::Status;
  const std::string_view message = message_of_line(line);
  const auto begins = [&](std::string_view beginning) { return message.starts_with(beginning); };
  const auto ended = [&](Status status) { facts.status = status, facts.reason = message; };
  // A new run starts here: nothing is kept of a run that was killed before its first checkpoint.
  if (begins("run folder ")) facts = {};
  if (begins("resuming ")) facts.status = Status::unknown, facts.reason.clear();
  if (begins("done: ")) ended(Status::finished);
  if (begins("stopped by a signal ")) ended(Status::stopped);
  if (begins("error: ")) ended(Status::failed);
  constexpr std::string_view kWarning = "warning: ";
  if (!begins(kWarning)) return;
  // A resumed run repeats the warnings that it finds while loading.
  if (std::string text(message.substr(kWarning.size()));
      std::ranges::find(facts.warnings, text) == facts.warnings.end())
    facts.warnings.push_back(std::move(text));
}

json read_object(const fs::path& file) {
  std::ifstream text = open_file(file);
  if (!text.is_open()) return {};
  json object = parse_json(std::string(std::istreambuf_iterator<char>(text), {}));
  return object.is_object() ? object : json();
}

}  // namespace dpo::report
