#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/stop.h"
#include "base/user_path.h"
#include "checkpoint/adapter.h"
#include "checkpoint/load.h"
#include "checkpoint/read_tensors.h"
#include "checkpoint/save.h"
#include "commands/command.h"
#include "commands/fetch.h"
#include "engine/gguf.h"
#include "engine/loading.h"
#include "engine/run_commands.h"

namespace dpo::engine {
namespace {

namespace fs = std::filesystem;

// The input model in the form that load_model takes it.
struct Input {
  std::string config;
  std::optional<fs::path> weights;  // nullopt: the files next to the config
};

Input input_of(const std::string& in, const std::string& config) {
  std::error_code none;
  const bool is_file = fs::is_regular_file(in, none);
  if (is_file && config.empty())
    throw UserError(
        fmt::format("{} is a file: --config must name the config.json of its model, or its folder", in));
  commands::fetch_model(in, hub::Need::weights);
  commands::fetch_model(config, hub::Need::config);
  if (config.empty()) return {in, std::nullopt};
  return {config, is_file ? fs::path(in) : checkpoint::model_folder(in)};
}

at::ScalarType stored_dtype(const Input& input) {
  const at::ScalarType stored = checkpoint::stored_dtype(input.config, input.weights);
  return stored == at::kDouble ? at::kFloat : stored;
}

// Returns RUN/LATEST if `in` is the folder of a run with a checkpoint, else `in`.
std::string newest_checkpoint(const std::string& in) {
  std::error_code none;
  const fs::path latest = fs::path(in) / kLatest;
  return fs::is_directory(latest, none) ? latest.string() : in;
}

// Returns the folder if `in` names an adapter, downloaded if necessary.
std::optional<fs::path> find_adapter_folder(const std::string& in) {
  std::error_code none;
  if (fs::is_regular_file(in, none)) return std::nullopt;
  commands::fetch_model(in, hub::Need::weights);
  const fs::path folder = checkpoint::model_folder(in);
  return commands::is_adapter(folder) ? std::optional(folder) : std::nullopt;
}

// Writes the adapter in a folder as GGUF, for the model that it was made for or that --config names.
int convert_adapter(const commands::ConvertArguments& arguments, const fs::path& folder) {
  const std::string base =
      arguments.config.empty() ? checkpoint::read_adapter_config(folder).base : arguments.config;
  if (base.empty())
    throw UserError(fmt::format(
        "{} does not name its model: --config must name the config.json of the model, or its folder",
        folder.string()));
  commands::fetch_model(base, hub::Need::config);
  handle_stop_signals();
  write_adapter_gguf(arguments.out, folder, checkpoint::read_config(base), arguments.dtype);
  return 0;
}

}  // namespace

int run_convert(const commands::ConvertArguments& arguments) {
  check_absent(arguments.out);
  check_gguf_options(arguments.out, arguments.dtype, arguments.modelfile);
  const bool as_gguf = commands::is_gguf(arguments.out);
  const std::string in = newest_checkpoint(arguments.in);
  if (const auto adapter = as_gguf ? find_adapter_folder(in) : std::nullopt)
    return convert_adapter(arguments, *adapter);
  const Input input = input_of(in, arguments.config);
  const bool keeps = arguments.dtype.empty() || as_gguf;  // GGUF's numbers are rounded once, when written
  const at::ScalarType dtype = keeps ? stored_dtype(input) : scalar_type_named(arguments.dtype);
  handle_stop_signals();
  checkpoint::LoadedModel model =
      checkpoint::load_model(input.config, dtype, at::kCPU, input.weights, shown_progress("reading"));
  print_weight_notes(model);
  if (as_gguf) {
    add_answer_ends(model, model.folder);
    write_gguf(arguments.out, model, model.folder,
               arguments.dtype.empty() ? checkpoint::name_of_scalar(dtype) : arguments.dtype,
               arguments.modelfile);
    return 0;
  }
  if (fs::path(arguments.out).extension() == ".pt") {
    checkpoint::save_policy(arguments.out, model, shown_progress("writing"));
  } else {
    add_answer_ends(model, model.folder);
    checkpoint::save_model(arguments.out, model, arguments.shard_bytes, shown_progress("writing"));
  }
  fmt::print("{}: {}\n", arguments.out, summary_of(model));
  return 0;
}

}  // namespace dpo::engine
