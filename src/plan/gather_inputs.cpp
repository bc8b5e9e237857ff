#include "plan/gather_inputs.h"

#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/shell.h"
#include "base/user_path.h"
#include "config/assets.h"
#include "hardware/processor.h"
#include "model/spec/description.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

// Returns the part of a path that exists. A folder that does not exist yet will be created below its nearest
// existing parent, on the same disk.
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

// Returns why a run cannot write in a folder, or an empty text if it can, as far as that is known without
// trying.
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

// Rejects a model.archive that 'dpo train' would reject only after reading the data.
void check_archive(const config::RunConfig& run) {
  const std::string& archive = *run.model.archive;
  std::error_code none;
  if (run.adapter.name != config::Adapter::none && !run.resume && fs::is_regular_file(archive, none))
    throw UserError(file_under_adapter(run));
  if (!fs::is_directory(archive, none) || fs::exists(fs::path(archive) / "config.json", none)) return;
  if (const std::string hint = run_folder_hint(archive); !hint.empty())
    throw UserError(fmt::format("model.archive: no model in {}{}", archive, hint));
}

// Returns the folder of our own checkpoint for the path that the original uses (CHECKPOINT/policy.pt).
fs::path archive_path(const fs::path& archive) {
  std::error_code none;
  const bool is_file_of_folder = archive.filename() == "policy.pt" && !fs::exists(archive, none);
  return is_file_of_folder ? archive.parent_path() : archive;
}

// Returns the config.json next to the weights that the run starts from: that of model.archive, if it is a
// model's folder, else the model's own.
Architecture start_of(const config::RunConfig& run, const Architecture& own) {
  if (!run.model.archive) return own;
  const fs::path archive = archive_path(*run.model.archive), config = archive / "config.json";
  std::error_code none;
  if (fs::exists(config, none)) return read_architecture(config);
  Architecture start = own;
  if (fs::is_regular_file(archive, none)) start.quantization.reset();  // the file has other weights
  return start;
}

// True if a file has the name of weights in a model folder, so that the config.json next to it is its own.
bool is_of_model_folder(const fs::path& file) {
  return file.stem() == "model" || file.stem() == "pytorch_model";
}

// Requires that the archive and model.name_or_path describe the same model, because plan and tokenizer are
// always those of model.name_or_path. A model.archive that is a folder has its own config.json; a file uses
// that of model.name_or_path.
void check_same_model(const config::RunConfig& run, const Architecture& own) {
  std::error_code none;
  const fs::path archive = archive_path(*run.model.archive);
  const bool is_file = fs::is_regular_file(archive, none);
  const fs::path folder = is_file ? archive.parent_path() : archive, config = folder / "config.json";
  const bool is_built_in = fs::path(own.origin).filename() != config.filename();  // sizes without settings
  if (is_built_in || !fs::exists(config, none) || (is_file && !is_of_model_folder(archive))) return;
  const Architecture start = read_architecture(config);
  const auto described = [](const Architecture& architecture) {
    return model::describe(model::parse_model_config(architecture.config_json, architecture.origin));
  };
  const std::string other = model::differences(described(start), described(own));
  if (other.empty()) return;
  throw UserError(fmt::format(
      "model.archive={}: the config.json beside its weights is not that of model.name_or_path={}: "
      "{}. To start from it as it was trained, use model.name_or_path={} without model.archive",
      *run.model.archive, run.model.name_or_path, other, is_file && folder.empty() ? "." : folder.string()));
}

// Sets adapter.base_dtype to the format of quantized files, since an adapter is trained over them as they
// are.
void use_stored_dtype(config::AdapterConfig& adapter, const Architecture& start) {
  if (!start.quantization || adapter.name == config::Adapter::none) return;
  const config::BaseDtype dtype = base_dtype_of(*start.quantization);
  if (adapter.base_dtype.value_or(dtype) != dtype)
    throw UserError(fmt::format(
        "adapter.base_dtype={}: the weights are {} already ({}: quantized by bitsandbytes), and an adapter "
        "is "
        "trained over them as they are; leave the key out, or use the model that they were made from",
        name_of(*adapter.base_dtype), name_of(dtype), start.origin));
  adapter.base_dtype = dtype;
}

// Reads the statistics that the configuration names, else takes what was counted, else reads the statistics
// of the first data set that has any, else HH's.
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

std::string file_under_adapter(const config::RunConfig& run) {
  const std::string& archive = *run.model.archive;
  const fs::path file = archive;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const bool is_of_folder = file.stem() == "model" || file.stem() == "adapter_model";  // not some policy.pt
  std::error_code none;
  if (is_of_folder &&
      (fs::exists(folder / "config.json", none) || fs::exists(folder / "adapter_config.json", none)))
    return fmt::format(
        "model.archive={} is a file, but an adapter needs a folder, which it can name: use "
        "model.archive={}",
        archive, folder.string());
  return fmt::format(
      "model.archive={} is a file, but an adapter needs a model folder, which it can name: make one ({}), "
      "and use model.name_or_path=OUT",
      archive, shell_command({"dpo", "convert", archive, "OUT", "--config", run.model.name_or_path}));
}

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
                     const std::optional<Lengths>& counted, const std::optional<Architecture>& known) {
  Inputs in;
  in.run = run;
  in.machine = machine;
  if (const auto note = resolve_precision(in.run.model, machine.device)) in.machine.notes.push_back(*note);
  const Architecture architecture = known ? *known : find_architecture(run.model.name_or_path);
  in.shape = architecture.shape;
  if (run.model.archive) check_same_model(run, architecture);
  const Architecture start = start_of(run, architecture);
  in.quantization = start.quantization;
  use_stored_dtype(in.run.adapter, start);
  in.table = std::make_shared<const model::TensorTable>(model::tensor_table(in.shape));
  in.adapter = adapter_of(run, *in.table);
  read_lengths(in, counted);
  in.host.resumes = run.resume.has_value();
  in.host.run_folder = run.local_run_dir.value_or(local_dir_of(run));
  if (machine.here) {
    in.host.memory = hardware::find_processor().memory;
    in.host.free_disk = free_bytes(existing_part(in.host.run_folder));
    if (!run.resume) in.host.obstacle = obstacle_in(existing_part(folder_of_runs(run)));
  }
  std::error_code none;
  if (run.model.archive) check_archive(run);
  if (run.model.archive) in.host.archive_exists = fs::exists(archive_path(*run.model.archive), none);
  return in;
}

}  // namespace dpo::plan
