#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/stop.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "commands/fetch.h"
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

Input input_of(const commands::ConvertArguments& arguments) {
  std::error_code none;
  const bool is_file = fs::is_regular_file(arguments.in, none);
  if (is_file && arguments.config.empty())
    throw UserError(fmt::format(
        "{} is a file: --config must name the config.json of its model, or its folder", arguments.in));
  commands::fetch_model(arguments.in, hub::Need::weights);
  commands::fetch_model(arguments.config, hub::Need::config);
  if (arguments.config.empty()) return {arguments.in, std::nullopt};
  return {arguments.config, is_file ? fs::path(arguments.in) : checkpoint::model_folder(arguments.in)};
}

at::ScalarType dtype_to_write(const commands::ConvertArguments& arguments, const Input& input) {
  if (!arguments.dtype.empty()) return scalar_type_named(arguments.dtype);
  const at::ScalarType stored = checkpoint::stored_dtype(input.config, input.weights);
  return stored == at::kDouble ? at::kFloat : stored;
}

}  // namespace

int run_convert(const commands::ConvertArguments& arguments) {
  check_absent(arguments.out);
  const Input input = input_of(arguments);
  const at::ScalarType dtype = dtype_to_write(arguments, input);
  handle_stop_signals();
  checkpoint::LoadedModel model =
      checkpoint::load_model(input.config, dtype, at::kCPU, input.weights, shown_progress("reading"));
  print_weight_notes(model);
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
