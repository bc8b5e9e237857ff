#include "serve/runs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "base/utf8.h"
#include "report/accuracy.h"
#include "report/metric_log.h"
#include "report/run_files.h"
#include "report/tail.h"

namespace dpo::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using report::Tail;
using std::chrono::seconds;

constexpr int kDepth = 4;               // levels below a given folder that are searched for runs
constexpr std::size_t kMostRuns = 500;  // runs in the list; the most recently changed ones are kept
constexpr std::size_t kMostFound = 10'000;
constexpr std::uint64_t kLastMetrics = 1 << 20;  // bytes of metrics.jsonl that the list reads first
constexpr seconds kScanEvery{3};                 // and at least 20 times the duration of a scan
constexpr seconds kSilent{30 * 60};              // long, because evaluating a large model can take minutes

std::string id_of(const fs::path& folder) {
  Sha256 hash;
  hash.add(folder.string());
  return to_hex(hash.finish()).substr(0, 12);
}

// Runs are in .cache unless local_dirs says otherwise. Other hidden folders have no runs.
bool may_have_runs(const std::string& name) { return !name.starts_with('.') || name == ".cache"; }

bool is_run(const fs::path& folder) {
  std::error_code none;
  return fs::is_regular_file(folder / "metrics.jsonl", none);
}

void add_runs(const fs::path& folder, const std::string& name, int depth, std::vector<Run>& runs) {
  if (runs.size() >= kMostFound) return;
  if (is_run(folder)) {
    runs.push_back({id_of(folder), replace_invalid_utf8(name), folder});
    return;
  }
  if (depth == 0) return;
  std::error_code none;
  for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, none), end;
       !none && entry != end; entry.increment(none)) {
    const std::string below = entry->path().filename().string();
    std::error_code unknown;
    if (may_have_runs(below) && entry->is_directory(unknown) && !entry->is_symlink(unknown))
      add_runs(entry->path(), name.empty() ? below : name + "/" + below, depth - 1, runs);
  }
}

double seconds_of(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration<double>(system.time_since_epoch()).count();
}

// Returns the time of a file's last change in seconds since 1970, or 0 if there is no file.
double changed_at(const fs::path& file) {
  std::error_code failed;
  const fs::file_time_type time = fs::last_write_time(file, failed);
  return failed ? 0 : seconds_of(time);
}

void keep_newest(std::vector<Run>& runs) {
  if (runs.size() <= kMostRuns) return;
  std::map<std::string, double> changed;
  for (const Run& run : runs) changed[run.id] = changed_at(run.folder / "metrics.jsonl");
  std::ranges::stable_sort(runs, std::greater(), [&](const Run& run) { return changed[run.id]; });
  runs.resize(kMostRuns);
}

// Keeps the last value of each of these metrics.
void add_values(json& values, const std::string& line) {
  constexpr std::array<const char*, 7> kNames = {
      "loss/train",        "loss/eval",        "rewards_eval/accuracies", "rewards_eval/margins",
      "counters/examples", "counters/updates", "counters/eval_examples"};
  const json metrics = json::parse(line, nullptr, false);
  if (!metrics.is_object()) return;
  for (const char* name : kNames)
    if (const auto found = metrics.find(name); found != metrics.end() && found->is_number())
      values[name] = *found;
}

// Returns the reward accuracy of the last evaluation for display, or "" if there is none.
std::string accuracy_in(const json& values) {
  const double accuracy = values.value("rewards_eval/accuracies", NAN);
  return std::isnan(accuracy)
             ? ""
             : report::accuracy_text(accuracy, values.value("rewards_eval/margins", NAN),
                                     report::whole_number(values.value("counters/eval_examples", 0.0)));
}

// Returns the number of updates that the plan expects, or null if unknown.
json planned_updates(const json& plan) {
  const json::json_pointer updates("/time/updates");
  return plan.is_object() && plan.contains(updates) && plan[updates].is_number() ? plan[updates] : json();
}

}  // namespace

const char* name_of(Status status) {
  switch (status) {
    case Status::running: return "running";
    case Status::silent: return "silent";
    case Status::finished: return "finished";
    case Status::stopped: return "stopped";
    case Status::failed: break;
  }
  return "failed";
}

std::vector<Run> find_runs(const std::vector<fs::path>& folders) {
  std::vector<Run> runs;
  for (const fs::path& folder : folders) {
    std::error_code failed;
    const fs::path whole = fs::canonical(folder, failed);
    if (failed) continue;
    // The name of a single folder is left out, since it would repeat in every line.
    const bool only = folders.size() == 1 && !is_run(whole);
    add_runs(whole, only ? "" : whole.filename().string(), kDepth, runs);
  }
  std::set<std::string> seen;  // a folder may be given twice
  std::erase_if(runs, [&](const Run& run) { return !seen.insert(run.id).second; });
  keep_newest(runs);
  std::ranges::sort(runs, {}, &Run::name);
  return runs;
}

// The state of a run in the list. It reads only the bytes that were added to the run's files.
struct Runs::Watched {
  explicit Watched(Run found)
      : run(std::move(found)),
        log(run.folder / "log.txt"),
        metrics(run.folder / "metrics.jsonl", kLastMetrics) {}

  void read() {
    for (bool more = true; more;) {
      const Tail::Part part = log.next();
      if (part.restarted) log_facts = {};
      for (const std::string& line : part.lines) report::add_log_line(log_facts, line);
      if (!part.lines.empty() || plan.is_null()) plan = report::read_object(run.folder / "plan.json");
      more = part.more;
    }
    for (bool more = true; more;) {
      const Tail::Part part = metrics.next();
      if (part.restarted) values = json::object();
      for (const std::string& line : part.lines) add_values(values, line);
      more = part.more;
    }
  }

  json describe() {
    read();
    const double changed =
        std::max(changed_at(run.folder / "metrics.jsonl"), changed_at(run.folder / "log.txt"));
    json line = {{"id", run.id},
                 {"name", run.name},
                 {"status", name_of(status(changed))},
                 {"started", changed_at(run.folder / "config.yaml")},
                 {"changed", changed},
                 {"values", values},
                 {"accuracy", accuracy_in(values)},
                 {"planned_updates", planned_updates(plan)}};
    if (!log_facts.reason.empty()) line["reason"] = replace_invalid_utf8(log_facts.reason.substr(0, 500));
    return line;
  }

  report::HeldOut held_out() const {
    return {report::whole_number(values.value("counters/eval_examples", 0.0)), report::held_out_digest(plan)};
  }

  Status status(double changed) const {
    using Said = report::LogFacts::Status;
    switch (log_facts.status) {
      case Said::finished: return Status::finished;
      case Said::stopped: return Status::stopped;
      case Said::failed: return Status::failed;
      case Said::unknown: break;
    }
    const double now = seconds_of(fs::file_time_type::clock::now());
    return now - changed > static_cast<double>(kSilent.count()) ? Status::silent : Status::running;
  }

  Run run;
  Tail log, metrics;
  report::LogFacts log_facts;
  json plan, values = json::object();
};

// The summary of a run's files, shared by all requests. Only one request at a time reads more of the files.
struct Runs::Followed {
  explicit Followed(const Run& run) : id(run.id), files(run.folder) {}

  const std::string id;
  std::mutex mutex;
  report::FollowedRun files;
};

std::shared_ptr<Runs::Followed> Runs::followed(const std::string& id) {
  const std::optional<Run> run = find(id);
  if (!run) return nullptr;
  const std::lock_guard lock(mutex_);
  auto found = std::ranges::find(followed_, id, [](const auto& each) { return each->id; });
  const std::shared_ptr<Followed> wanted =
      found == followed_.end() ? std::make_shared<Followed>(*run) : *found;
  if (found != followed_.end()) followed_.erase(found);
  followed_.push_front(wanted);
  if (followed_.size() > kMostFollowed) followed_.pop_back();
  return wanted;
}

bool Runs::follow(const std::string& id, const std::function<void(const report::FollowedRun&)>& use) {
  const std::shared_ptr<Followed> run = followed(id);
  if (!run) return false;
  const std::lock_guard lock(run->mutex);  // one mutex per run, because the first call reads the whole file
  run->files.read();
  use(run->files);
  return true;
}

Runs::Runs(std::vector<fs::path> folders) : folders_(std::move(folders)) { scan(); }
Runs::~Runs() = default;

void Runs::scan() {
  const auto begin = std::chrono::steady_clock::now();
  std::map<std::string, std::unique_ptr<Watched>> found;
  for (Run& run : find_runs(folders_)) {
    auto& kept = watched_[run.id];
    const std::string id = run.id;
    found[id] = kept ? std::move(kept) : std::make_unique<Watched>(std::move(run));
  }
  watched_ = std::move(found);
  const auto end = std::chrono::steady_clock::now();
  next_scan_ = end + std::max<std::chrono::steady_clock::duration>(kScanEvery, 20 * (end - begin));
}

std::optional<Run> Runs::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(id);
  return found == watched_.end() ? std::nullopt : std::optional(found->second->run);
}

json Runs::list() {
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() > next_scan_) scan();
  std::vector<json> lines;
  for (const auto& [id, watched] : watched_) lines.push_back(watched->describe());
  std::ranges::stable_sort(lines, [](const json& a, const json& b) {
    return a["started"].get<double>() > b["started"].get<double>();
  });
  return lines;
}

report::HeldOutComparison Runs::compare_held_out(const std::vector<std::string>& ids) const {
  const std::lock_guard lock(mutex_);
  std::vector<report::HeldOut> sets;
  for (const std::string& id : ids)
    if (const auto found = watched_.find(id); found != watched_.end())
      sets.push_back(found->second->held_out());
  return report::compare_held_out(sets);
}

}  // namespace dpo::serve
