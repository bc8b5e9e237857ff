#include "plan/surroundings.h"

#include <filesystem>

#include <fmt/format.h>

#include "config/assets.h"
#include "plan/architecture.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

// A folder that does not exist yet will be made on the disk of its nearest existing parent.
std::optional<double> free_bytes(fs::path folder) {
  std::error_code failed;
  folder = fs::absolute(folder, failed);
  while (!failed && !fs::exists(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, failed);
  if (failed) return std::nullopt;
  return static_cast<double>(space.available);
}

// The statistics that the configuration names, else those of the first data set that has any, else HH's.
void read_lengths(Inputs& in) {
  if (in.run.plan.lengths) {
    in.lengths = load_lengths(*in.run.plan.lengths);
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

std::string local_dir_of(const config::RunConfig& run) {
  std::error_code none;
  for (const std::string& folder : run.local_dirs)
    if (fs::exists(folder, none)) return folder;
  return run.local_dirs.empty() ? "." : run.local_dirs.back();
}

Inputs gather_inputs(const config::RunConfig& run, const Machine& machine) {
  Inputs in;
  in.run = run;
  in.machine = machine;
  in.shape = find_architecture(run.model.name_or_path).shape;
  in.table = std::make_shared<const model::TensorTable>(model::tensor_table(in.shape));
  read_lengths(in);
  in.surroundings.run_folder = run.local_run_dir.value_or(local_dir_of(run));
  if (machine.here) in.surroundings.free_disk = free_bytes(in.surroundings.run_folder);
  std::error_code none;
  if (run.model.archive) in.surroundings.archive_exists = fs::exists(*run.model.archive, none);
  return in;
}

}  // namespace dpo::plan
