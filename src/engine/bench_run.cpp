#include "engine/bench_run.h"

#include <fmt/format.h>

#include "base/quantity.h"
#include "commands/fetch.h"
#include "commands/run_keys.h"
#include "engine/out_of_memory.h"
#include "engine/ranks.h"
#include "plan/gather_inputs.h"
#include "train/events.h"

namespace dpo::engine {

config::RunConfig bench_run(const config::Resolved& asked, const comm::World& world) {
  const bool first = world.all->rank() == 0;
  if (first) commands::print_notes(asked.notes);
  once_per_machine(world, [&](bool shown) {
    commands::fetch_for_plan(asked.values, shown ? commands::shown_downloads() : hub::Listener{});
  });
  const config::Resolved resolved = commands::adapted(asked);
  if (first) commands::print_notes(resolved.notes);
  config::RunConfig run = resolved.values;
  run.debug = true;                                  // nothing is saved
  if (run.exp_name.empty()) run.exp_name = "bench";  // suggested settings need a name
  return run;
}

PlannedBench::PlannedBench(const config::RunConfig& run, const plan::Machine& machine, bool warns)
    : in(plan::gather_inputs(run, machine)), plan(plan::assess(in)) {
  if (warns && !plan.fits())
    fmt::print(stderr,
               "warning: according to the plan this does not fit ({} of {}) and may run out of memory\n",
               memory_size(plan.memory.total()), memory_size(plan.memory.available));
}

void PlannedBench::run(const std::function<void()>& work) const {
  try {
    work();
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    throw train::TrainingFailure(out_of_memory_text(error, plan, in));
  }
}

}  // namespace dpo::engine
