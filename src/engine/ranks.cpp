#include "engine/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "comm/backends.h"
#include "comm/launch.h"
#include "comm/sockets.h"
#include "comm/spawn.h"
#include "comm/watchdog.h"
#include "comm/world.h"
#include "commands/command.h"
#include "config/mesh.h"
#include "hardware/processor.h"
#include "ops/devices.h"
#include "train/events.h"

namespace dpo::engine {
namespace {

std::optional<std::uint16_t> port_of(const config::RunConfig& run) {
  if (!run.fsdp_port) return std::nullopt;
  return static_cast<std::uint16_t>(*run.fsdp_port);
}

// This program with its arguments, to be started again.
std::vector<std::string> own_command() {
  std::vector<std::string> command;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string argument; std::getline(file, argument, '\0');) command.push_back(argument);
  command.at(0) = std::filesystem::read_symlink("/proc/self/exe");
  return command;
}

int start_ranks(const config::RunConfig& run, std::int64_t ranks, std::int64_t gpus) {
  constexpr std::int64_t kMost = 1024;
  if (ranks > kMost)
    throw UserError(fmt::format(
        "mesh.* needs {} processes, and dpo starts at most {} on one machine; use mpirun, torchrun "
        "or srun for several machines",
        ranks, kMost));
  const int size = static_cast<int>(ranks);
  if (ranks > gpus || !comm::has_nccl())
    return comm::start_and_wait({comm::mpirun_ranks(own_command(), size)}, comm::Forwarding::as_usr1);
  const std::uint16_t port = comm::listen_on(port_of(run)).port;
  return comm::start_and_wait(comm::local_ranks(own_command(), size, port), comm::Forwarding::unchanged);
}

// Ranks that may use the same cores (all of a machine's, a container's, or those that their launcher bound
// them to) divide these among them.
void share_cores(const comm::World& world) {
  if (std::getenv("OMP_NUM_THREADS")) return;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  std::string cores = comm::host_name();
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores += fmt::format(" {}", core);
  const std::vector<std::string> all = comm::gather_texts(*world.all, cores);
  const auto sharing = static_cast<int>(std::ranges::count(all, cores));
  const int threads = hardware::find_processor().threads();
  at::set_num_threads(std::max(1, std::min(at::get_num_threads(), threads / sharing)));
}

// The message of an exception, and the exit status.
struct End {
  std::string message;
  int status = kBadInput;
};

End end_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const train::TrainingFailure& failure) {
    return {message_of(failure), kTrainingFailed};
  } catch (const UserError& error) {
    return {error.what(), kBadInput};
  } catch (const Stopped& stopped) {
    return {stopped.what(), kStopped};
  } catch (const std::exception& error) {
    return {message_of(error), kTrainingFailed};
  } catch (...) {
    return {"an unknown exception was thrown", kTrainingFailed};
  }
}

// What a rank prints before it exits: an error, or that a signal stopped it. Rank 0 prints it like a run of
// one process.
std::string last_lines(int rank, const std::string& text, int status) {
  std::istringstream lines(text);
  std::string all;
  const std::string prefix = rank == 0 ? "" : fmt::format("[rank {}] ", rank);
  const char* first = status == kStopped ? "" : "error: ";
  for (std::string line; std::getline(lines, line);)
    all += fmt::format("{}{}{}\n", prefix, all.empty() ? first : "", line);
  return all;
}

[[noreturn]] void end_process(const std::string& last, int status) {
  std::fflush(stdout);
  Terminal::clear_for_exit();
  std::fputs(last.c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(status);
}

// Printed once on every machine: by its first rank, or by the second where rank 0 is the one that is gone.
// Ends the process without destructors, which would wait for the failed rank.
[[noreturn]] void end_after(const comm::RankFailure& failure, const comm::World& world, int rank) {
  const bool first_is_gone = failure.rank == 0 && !failure.reported && failure.host == comm::host_name();
  const bool prints = world.local_rank == (first_is_gone ? 1 : 0);
  const bool is_own = failure.rank == rank && failure.reported;
  const std::string text = is_own ? failure.what : comm::describe(failure);
  end_process(prints ? last_lines(rank, text, failure.status) : "", failure.status);
}

// fsdp_port is the watchdog's, unless the ranks have already used it for their rendezvous (MASTER_PORT).
comm::WatchdogOptions watchdog_options(const comm::Launch& launch,
                                       const std::optional<config::Resolved>& resolved) {
  if (!resolved) return {};
  const bool met = launch.launcher == comm::Launcher::variables;
  return {std::chrono::seconds(resolved->values.rank_timeout_secs),
          met ? std::nullopt : port_of(resolved->values)};
}

// The work of a process that a launcher started.
int work_as_rank(const comm::Launch& launch, const config::Request& request, const RankWork& work) {
  std::optional<config::Resolved> resolved;
  std::exception_ptr error;
  try {
    resolved = config::compose(request);
  } catch (const UserError&) {
    error = std::current_exception();  // every rank has it: reported once, below
  }
  const comm::World world = comm::connect(launch);
  const int rank = world.all->rank();
  comm::Watchdog watchdog(
      *world.all, watchdog_options(launch, resolved),
      [&world, rank](const comm::RankFailure& failure) { end_after(failure, world, rank); });
  try {
    if (error) std::rethrow_exception(error);
    config::mesh_of(resolved->values, world.all->size());
    share_cores(world);
    const int status = work(*resolved, world);
    world.all->barrier();  // no rank leaves before all are done
    return status;
  } catch (...) {
    error = std::current_exception();
  }
  const End end = end_of(error);
  watchdog.fail(end.message, end.status);
  end_process(last_lines(rank, end.message, end.status), end.status);
}

}  // namespace

int on_ranks(const config::Request& request, const RankWork& work) {
  if (gpu_count() == 0) keep_freed_memory();
  const comm::Launch launch = comm::read_launch(comm::this_environment());
  if (launch.launcher != comm::Launcher::none) return work_as_rank(launch, request, work);
  const config::Resolved resolved = config::compose(request);
  const auto gpus = static_cast<std::int64_t>(list_gpus().size());
  const std::int64_t ranks = config::ranks_to_start(resolved.values, gpus);
  if (ranks > 1) return start_ranks(resolved.values, ranks, gpus);
  try {
    return work(resolved, {});
  } catch (const train::TrainingFailure& failure) {
    commands::print_error(message_of(failure));
    return kTrainingFailed;
  }
}

void once_per_machine(const comm::World& world, const std::function<void(bool)>& work) {
  if (world.local_rank == 0) work(world.all->rank() == 0);
  world.all->barrier();
}

plan::Machine machine_of(const comm::World& world) {
  if (world.all->size() == 1) return plan::find_machine({});
  return plan::find_machine(
      {.gpus = {}, .nodes = {}, .device = {}, .ranks = world.all->size(), .ranks_here = world.local_size});
}

}  // namespace dpo::engine
