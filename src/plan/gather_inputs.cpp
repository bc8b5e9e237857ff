#include "plan/gather_inputs.h"

#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/user_path.h"
#include "config/assets.h"
#include "hardware/processor.h"
#include "plan/architecture.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

// A folder that does not exist yet will be created below its nearest existing parent, on the same disk.
fs::path existing_part(fs::path folder) {
  std::error_code failed;
  folder = fs::absolute(folder, failed);
  while (!failed && !fs::exists(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

std::optional<double> free_bytes(const fs::path& existing) {
  std::error_code failed;
  const fs::space_info space = fs::space(existing, failed);
  if (failed) return std::nullopt;
  return static_cast<double>(space.available);
}

// Why a run cannot write in a folder; empty where it can, as far as one can tell without trying.
std::string obstacle_in(const fs::path& existing) {
  std::error_code failed;
  if (!fs::is_directory(existing, failed)) return fmt::format("{} is not a folder", existing.string());
  if (::access(existing.c_str(), W_OK | X_OK) != 0)
    return fmt::format("{}: {}", existing.string(), std::strerror(errno));
  const fs::space_info space = fs::space(existing, failed);
  if (!failed && space.capacity == 0)
    return fmt::format("{} is not on a disk (a kernel file system)", existing.string());
  return "";
}

// 'dpo train' would notice only after reading the data.
void check_archive(const std::string& archive) {
  std::error_code none;
  if (!fs::is_directory(archive, none) || fs::exists(fs::path(archive) / "config.json", none)) return;
  if (const std::string hint = run_folder_hint(archive); !hint.empty())
    throw UserError(fmt::format("model.archive: no model in {}{}", archive, hint));
}

// The statistics that the configuration names, else what was counted, else the statistics of the first data
// set that has any, else HH's.
void read_lengths(Inputs& in, const std::optional<Lengths>& counted) {
  if (in.run.plan.lengths || counted) {
    in.lengths = in.run.plan.lengths ? load_lengths(*in.run.plan.lengths) : *counted;
    return;
  }
  std::string measured;
  for (const std::string& dataset : in.run.datasets) {
    if (!config::asset("lengths/" + dataset + ".yaml"))
      in.unmeasured.push_back(dataset);
    else if (measured.empty())
      measured = dataset;
  }
  in.lengths = load_lengths(measured.empty() ? "hh" : measured);
}

}  // namespace

fs::path folder_of_user(const config::RunConfig& run) {
  const passwd* user = ::getpwuid(::getuid());
  return fs::path(local_dir_of(run)) / (user ? user->pw_name : std::to_string(::getuid()));
}

fs::path folder_of_runs(const config::RunConfig& run) {
  return run.local_run_dir ? fs::path(*run.local_run_dir) : folder_of_user(run);
}

std::string local_dir_of(const config::RunConfig& run) {
  std::error_code none;
  for (const std::string& folder : run.local_dirs)
    if (fs::exists(folder, none)) return folder;
  return run.local_dirs.empty() ? "." : run.local_dirs.back();
}

Inputs gather_inputs(const config::RunConfig& run, const Machine& machine,
                     const std::optional<Lengths>& counted) {
  Inputs in;
  in.run = run;
  in.machine = machine;
  if (const auto note = resolve_precision(in.run.model, machine.device)) in.machine.notes.push_back(*note);
  in.shape = find_architecture(run.model.name_or_path).shape;
  in.table = std::make_shared<const model::TensorTable>(model::tensor_table(in.shape));
  in.adapter = adapter_of(run, *in.table);
  read_lengths(in, counted);
  in.host.run_folder = run.local_run_dir.value_or(local_dir_of(run));
  if (machine.here) {
    in.host.memory = hardware::find_processor().memory;
    in.host.free_disk = free_bytes(existing_part(in.host.run_folder));
    if (!run.resume) in.host.obstacle = obstacle_in(existing_part(folder_of_runs(run)));
  }
  std::error_code none;
  if (run.model.archive) check_archive(*run.model.archive);
  if (run.model.archive) in.host.archive_exists = fs::exists(*run.model.archive, none);
  return in;
}

}  // namespace dpo::plan
