#include <memory>

#include <fmt/format.h>

#include "base/output_files.h"
#include "base/quantity.h"
#include "base/stop.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "commands/fetch.h"
#include "engine/loading.h"
#include "engine/run_commands.h"

namespace dpo::engine {

int run_init(const commands::InitArguments& arguments) {
  check_absent(arguments.out);
  commands::fetch_model(arguments.config, hub::Need::config);
  const at::ScalarType dtype = arguments.dtype.empty() ? checkpoint::configured_dtype(arguments.config)
                                                       : scalar_type_named(arguments.dtype);
  handle_stop_signals();
  const checkpoint::LoadedModel model =
      checkpoint::new_model(arguments.config, dtype, at::kCPU, arguments.seed);
  checkpoint::save_model(arguments.out, model, kShardBytes, shown_progress("writing"));
  fmt::print("{}: {}\n", arguments.out, summary_of(model));
  return 0;
}

}  // namespace dpo::engine
