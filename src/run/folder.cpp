#include "run/folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/output_files.h"
#include "base/user_path.h"
#include "plan/gather_inputs.h"
#include "run/snapshot.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kStepName = "counters/examples";

void write_lines(const fs::path& path, const std::string& lines) {
  fs::create_directories(path.parent_path());
  write_file(path, lines);
}

// Recognizes the temporary folders (NAME.tmp.*) and files (NAME, a dot, six letters, .tmp) of output_files,
// and the file with which ranks check that they see the same folder.
bool is_unfinished(const std::string& name) {
  constexpr std::array kFolders = {"step-", "merged.tmp."};
  constexpr std::array kFiles = {
      "step-",      "events.out.tfevents.", "metrics.jsonl.",    "config.yaml.",
      "plan.json.", "report.html.",         "environment.json.", "eval_examples.jsonl."};
  constexpr std::size_t kEnd = std::string_view(".123456.tmp").size();
  const auto begins = [&](const char* start) { return name.starts_with(start); };
  const bool is_file = name.ends_with(".tmp") && name.size() > kEnd && name[name.size() - kEnd] == '.' &&
                       std::ranges::any_of(kFiles, begins);
  return is_file || begins(".start-") ||
         (std::ranges::any_of(kFolders, begins) && name.find(".tmp.") != name.npos);
}

// Removes unfinished files and folders that a killed process left.
void remove_unfinished(const fs::path& run) {
  for (const fs::path& folder : {run, run / "eval", run / "samples", run / "tensorboard"}) {
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
      if (is_unfinished(entry.path().filename().string())) fs::remove_all(entry.path());
  }
}

// Removes evaluations and samples after the checkpoint. The run writes them again, unless they are now due at
// other steps.
void remove_later_evaluations(const fs::path& run, const RunState& run_state) {
  const std::int64_t end = run_state.examples + (run_state.evaluated == run_state.examples ? 1 : 0);
  for (const fs::path& folder : {run / "eval", run / "samples"}) {
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
      if (const auto step = step_of(entry.path().stem()); step && *step >= end) fs::remove(entry.path());
  }
}

bool try_to_write(const fs::path& path, const std::string& lines) {
  try {
    write_lines(path, lines);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Returns the value of an environment variable, or "".
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool uses_mlflow(const config::RunConfig& config) {
  return config.mlflow.tracking_uri || !variable("MLFLOW_TRACKING_URI").empty();
}

// Returns the names of the trackers' packages. debug=true sends nothing, as in the original.
std::vector<std::string> packages_of(const config::RunConfig& config) {
  std::vector<std::string> names;
  if (config.debug) return names;
  if (config.wandb.enabled && variable("WANDB_MODE") != "disabled") names.emplace_back("wandb");
  if (uses_mlflow(config)) names.emplace_back("mlflow");
  if (config.trackio.enabled) names.emplace_back("trackio");
  if (config.swanlab.enabled) names.emplace_back("swanlab");
  return names;
}

track::Row row_of(const Metrics& metrics) {
  return {static_cast<std::int64_t>(value_of(metrics, kStepName)), metrics};
}

// Drops all but the first `size` bytes by writing a new file, so that another process following the old file
// can see that it was replaced.
void keep_beginning(const fs::path& path, std::uint64_t size) {
  std::error_code none;
  if (fs::file_size(path, none) == size) return;
  std::ifstream old(path, std::ios::binary);
  AtomicFile file(path);
  std::string bytes(1 << 20, '\0');
  for (std::uint64_t left = size; left > 0; left -= bytes.size()) {
    bytes.resize(std::min<std::uint64_t>(left, bytes.size()));
    if (!old.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
      throw UserError(fmt::format("cannot read {}", path.string()));
    file.write(bytes);
  }
  file.commit();
}

}  // namespace

fs::path run_stem(const config::RunConfig& config) { return plan::folder_of_runs(config) / config.exp_name; }

fs::path new_run_folder(const config::RunConfig& config) {
  if (config.local_run_dir) return without_slash(*config.local_run_dir);
  const std::string time = fmt::format("{:%Y-%m-%d_%H-%M-%S}", fmt::localtime(std::time(nullptr)));
  return fmt::format("{}_{}", run_stem(config).string(), time);
}

void check_trackers(const config::RunConfig& config) {
  if (config.debug || !config.mlflow.tracking_uri) return;
  const std::string problem =
      track::problem_of_mlflow_uri("mlflow.tracking_uri", *config.mlflow.tracking_uri);
  if (!problem.empty()) throw UserError(problem);
}

RunFolder::RunFolder(FolderClaim claim, const RunState& run_state)
    : path_(claim.path()),
      claim_(std::move(claim)),
      examples_(run_state.examples),
      evaluated_(run_state.evaluated) {
  claim_->keep();
  remove_unfinished(path_);
  const fs::path file = path_ / "metrics.jsonl";
  if (fs::exists(file)) {
    remove_later_evaluations(path_, run_state);
    std::ifstream lines(file, std::ios::binary);
    const std::uint64_t size = bytes_until(lines, run_state);
    keep_beginning(file, size);
    metrics_.emplace(file, size);
  } else {
    metrics_.emplace(file, std::string());
  }
  if (!metrics_->is_written())
    throw UserError(fmt::format(
        "cannot write {}: the disk is full, or it is a link or belongs to another user", file.string()));
  log_.emplace(path_ / "log.txt");
}

void RunFolder::start_trackers(const config::RunConfig& config, const std::string& config_json) {
  if (examples_ == 0) track::forget_sent(path_);
  if (config.tensorboard)
    tensorboard_.emplace(track::TensorBoard::Settings{path_, config_json, examples_, evaluated_},
                         [this](std::int64_t first, const std::function<void(const track::Row&)>& use) {
                           replay(first, [&](const Metrics& metrics) {
                             if (!std::isnan(value_of(metrics, kStepName))) use(row_of(metrics));
                           });
                         });
  std::vector<std::string> packages = packages_of(config);
  // Other programs use this variable too, so a mistake in it does not stop a run.
  const std::string problem =
      config.mlflow.tracking_uri
          ? ""
          : track::problem_of_mlflow_uri("MLFLOW_TRACKING_URI", variable("MLFLOW_TRACKING_URI"));
  if (!problem.empty() && std::erase(packages, "mlflow") > 0)
    notes_.push_back(fmt::format("warning: nothing is sent to MLflow: {}", problem));
  senders_.emplace(path_, config_json, packages);
}

void RunFolder::finish_trackers() {
  if (senders_) senders_->finish();
}

std::vector<std::string> RunFolder::tracker_notes() {
  std::vector<std::string> notes = std::exchange(notes_, {});
  if (senders_) std::ranges::move(senders_->notes(), std::back_inserter(notes));
  return notes;
}

bool RunFolder::log(const std::string& line) {
  if (!writes_) return true;
  return log_->add(fmt::format("{:%Y-%m-%d %H:%M:%S}  {}", fmt::localtime(std::time(nullptr)), line));
}

bool RunFolder::add_metrics(const Metrics& metrics) {
  if (!writes_) return true;
  const bool tracked = !tensorboard_ || tensorboard_->add(row_of(metrics));
  return metrics_->append(to_json_line(metrics) + "\n") && tracked;
}

void RunFolder::replay(std::int64_t first, const std::function<void(const Metrics&)>& use) const {
  if (!writes_) return;
  std::ifstream lines(path_ / "metrics.jsonl", std::ios::binary);
  const std::uint64_t begin =
      first > 0 ? bytes_until(lines, {.examples = first - 1, .evaluated = first - 1}) : 0;
  lines.seekg(static_cast<std::streamoff>(begin));
  Metrics metrics;
  for (std::string line; std::getline(lines, line);)
    if (read_numbers(line, metrics)) use(metrics);
}

bool RunFolder::write_examples(std::span<const train::ExampleBatch> evaluation,
                               const text::Tokenizer& tokenizer) {
  if (!writes_ || evaluation.empty()) return true;
  std::string lines;
  for (const std::string& line : example_lines(evaluation, tokenizer)) lines += line + "\n";
  return try_to_write(path_ / "eval_examples.jsonl", lines);
}

bool RunFolder::write_records(std::int64_t examples, std::span<const train::Record> records, double beta) {
  if (!writes_) return true;
  const bool tracked =
      !tensorboard_ || tensorboard_->add_histograms(examples, distributions_of(records, beta));
  std::string lines;
  for (const train::Record& record : records) {
    ordered_json line = {{"example", record.example},
                         {"loss", record.loss},
                         {"logps", record.policy},
                         {"reference", record.reference},
                         {"tokens", record.tokens}};
    if (!record.desirable) line["desirable"] = false;
    for (std::size_t i = 0; i < record.policy.size(); ++i)
      line["rewards"].push_back(beta * (record.policy[i] - record.reference[i]));
    lines += line.dump() + "\n";
  }
  return try_to_write(path_ / "eval" / fmt::format("step-{}.jsonl", examples), lines) && tracked;
}

bool RunFolder::write_samples(std::int64_t examples, std::span<const Sample> policy,
                              std::span<const Sample> reference) {
  if (!writes_) return true;
  const bool tracked = !tensorboard_ || tensorboard_->add_samples(examples, sample_texts(policy, reference));
  std::string lines;
  for (const std::string& line : to_json_lines(policy, reference)) lines += line + "\n";
  return try_to_write(path_ / "samples" / fmt::format("step-{}.jsonl", examples), lines) && tracked;
}

std::string RunFolder::write_report() try {
  if (writes_ && report_) report_(path_);
  return "";
} catch (const std::exception& error) {
  return error.what();
}

bool RunFolder::flush() {
  const bool tracked = !tensorboard_ || tensorboard_->flush();
  return (!writes_ || metrics_->append("")) && tracked;
}

}  // namespace dpo::run
