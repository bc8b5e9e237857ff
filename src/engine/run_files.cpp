#include "engine/run_files.h"

#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/shell.h"
#include "base/user_path.h"
#include "checkpoint/adapter.h"
#include "commands/report.h"
#include "engine/merge.h"
#include "track/senders.h"

namespace dpo::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMerged = "merged";

// Returns the command that generates text with a checkpoint, which is a model or an adapter.
std::string sample_command(const fs::path& checkpoint, bool chat) try {
  std::vector<std::string> sample = {"dpo", "sample"};
  if (checkpoint::is_adapter(checkpoint)) {
    sample.push_back(checkpoint::read_adapter_config(checkpoint).base);
    sample.emplace_back("--adapter");
  }
  sample.push_back(checkpoint.string());
  if (chat) sample.emplace_back("--chat");
  return shell_command(sample);
} catch (const UserError&) {  // only a hint: the run has succeeded
  return "dpo sample --help";
}

}  // namespace

std::string list_files(const TrainResult& run, bool is_merged) {
  const fs::path& folder = run.folder;
  std::string text = "\nfiles of the run:\n";
  const auto add = [&](const char* what, const char* name) {
    if (fs::exists(folder / name)) text += fmt::format("  {:<12} {}\n", what, (folder / name).string());
  };
  add("checkpoint", kLatest);
  if (is_merged) add("merged", kMerged);
  std::error_code none;
  if (const fs::path best = fs::read_symlink(folder / kBest, none); !none)
    text += fmt::format("  {:<12} {} ({})\n", "best", (folder / kBest).string(), best.filename().string());
  if (fs::is_regular_file(folder / commands::kReport)) add("report", commands::kReport);
  add("metrics", "metrics.jsonl");
  add("log", "log.txt");
  add("samples", "samples");
  add("evaluations", "eval");
  for (const track::Shown& shown : track::shown_at(folder))
    text += fmt::format("  {:<12} {}\n", shown.tracker, shown.where);
  text += fs::exists(folder / kLatest) ? fmt::format("try: {}\n", sample_command(folder / kLatest, run.chat))
                                       : "  no checkpoint was saved: debug=true\n";
  if (fs::exists(folder / "tensorboard"))
    text += fmt::format("curves: {}\n",
                        shell_command({"tensorboard", "--logdir", (folder / "tensorboard").string()}));
  return text;
}

void merge_latest(const fs::path& folder) {
  const fs::path latest = folder / kLatest, out = folder / kMerged;
  if (!fs::exists(latest)) return;  // debug=true saves nothing
  const std::string base = checkpoint::read_adapter_config(latest).base;
  try {
    fs::remove_all(out);  // left from before the run was resumed
    merge(base, latest, out);
  } catch (const UserError& error) {
    throw UserError(fmt::format("the run is complete, but {} was not written: {}; try: {}", out.string(),
                                error.what(), shell_command({"dpo", "merge", base, latest.string(), "OUT"})));
  }
}

}  // namespace dpo::engine
