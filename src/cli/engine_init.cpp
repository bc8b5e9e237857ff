#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/output_files.h"
#include "base/stop.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "cli/engine_commands.h"
#include "cli/engine_work.h"
#include "cli/init_arguments.h"

namespace dpo::cli {
namespace {

int run_init(const InitArguments& arguments) {
  constexpr std::uint64_t kShardBytes = 5'000'000'000;
  check_absent(arguments.out);
  const at::ScalarType dtype = arguments.dtype.empty() ? checkpoint::configured_dtype(arguments.config)
                                                       : scalar_type_named(arguments.dtype);
  handle_stop_signals();
  const checkpoint::LoadedModel model =
      checkpoint::new_model(arguments.config, dtype, at::kCPU, arguments.seed);
  checkpoint::save_model(arguments.out, model, kShardBytes, shown_progress("writing"));
  fmt::print("{}: {}\n", arguments.out, summary_of(model));
  return 0;
}

}  // namespace

void add_engine_init(CLI::App& engine, Action& action) {
  CLI::App& command = *engine.add_subcommand("init");
  const auto arguments = std::make_shared<InitArguments>();
  describe_init(command, *arguments);
  command.callback([&action, arguments] { action = [arguments] { return run_init(*arguments); }; });
}

}  // namespace dpo::cli
