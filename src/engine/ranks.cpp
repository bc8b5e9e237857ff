#include "engine/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/progress_count.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "comm/backends.h"
#include "comm/counted.h"
#include "comm/introduction.h"
#include "comm/launch.h"
#include "comm/sockets.h"
#include "comm/spawn.h"
#include "comm/watchdog.h"
#include "comm/world.h"
#include "commands/command.h"
#include "config/mesh.h"
#include "config/same_on_ranks.h"
#include "hardware/processor.h"
#include "ops/devices.h"
#include "train/events.h"

namespace dpo::engine {
namespace {

std::optional<std::uint16_t> port_of(const config::RunConfig& run) {
  if (!run.fsdp_port) return std::nullopt;
  return static_cast<std::uint16_t>(*run.fsdp_port);
}

// Returns this program and its arguments, to be started again.
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

// Divides cores among the ranks that share them: the cores of a machine or a container, or those that the
// launcher bound the ranks to.
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

// The message of an exception and the exit status.
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

// Returns the lines that a rank prints before it exits: an error, or that a signal stopped it. Rank 0 prints
// no prefix, like a run with one process.
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

// Ends the process without destructors, which would wait for the failed rank. One rank of each machine prints
// the failure: the first, or the second on the machine where rank 0 has died.
[[noreturn]] void end_after(const comm::RankFailure& failure, const comm::World& world, int rank) {
  const bool first_is_gone = failure.rank == 0 && !failure.reported && failure.host == comm::host_name();
  const bool prints = world.local_rank == (first_is_gone ? 1 : 0);
  const bool is_own = failure.rank == rank && failure.reported;
  const std::string text = is_own ? failure.what : comm::describe(failure);
  end_process(prints ? last_lines(rank, text, failure.status) : "", failure.status);
}

std::chrono::seconds timeout_of(const config::RunConfig& run) {
  return std::chrono::seconds(run.rank_timeout_secs);
}

// Prints from another thread, because the terminal may be stopped (Ctrl-S) and the watchdog must not wait for
// it.
void print_in_background(const std::string& warning) try {
  std::thread([warning] { Terminal::get().print("warning: " + warning); }).detach();
} catch (const std::system_error&) {
  // No thread could be started. A lost warning is no reason to end a run.
}

// The watchdog uses fsdp_port unless the ranks have already used it for their rendezvous (MASTER_PORT).
comm::WatchdogOptions watchdog_options(const comm::Launch& launch, const config::RunConfig& run,
                                       const std::shared_ptr<comm::OperationCount>& operations) {
  const bool met = launch.launcher == comm::Launcher::variables;
  return {.timeout = timeout_of(run),
          .one_machine = launch.local_size == launch.size,  // from the launcher; host names may be the same
          .port = met ? std::nullopt : port_of(run),
          .progress =
              [operations] {
                return comm::Progress{progress_count(), *operations};
              },
          .warn = print_in_background};
}

// A configuration, or the reason why it is invalid.
struct Composed {
  std::optional<config::Resolved> resolved;
  std::string problem = {};
};

Composed try_compose(const config::Request& request) {
  try {
    return {config::compose(request)};
  } catch (const UserError& error) {
    return {std::nullopt, error.what()};
  }
}

// Returns whether all ranks can do the same work. If not, rank 0 prints the reason.
bool agree(const std::string& command, const Composed& composed, comm::Group& all) {
  const std::string program =
      fmt::format("dpo {} with LibTorch {}", DPO_VERSION, describe_tensor_library().version);
  const std::vector<std::string> problems = comm::disagreements(
      comm::introduce(all, {.host = comm::host_name(),
                            .program = program,
                            .command = command,
                            .has_gpu = gpu_count() > 0,
                            .problem = composed.problem,
                            .keys = composed.resolved ? config::same_on_ranks(composed.resolved->values)
                                                      : std::map<std::string, std::string>()}));
  if (problems.empty()) return true;
  if (all.rank() == 0) commands::print_error(UserError(problems).what());
  all.barrier();  // a launcher ends all ranks when the first exits
  return false;
}

// Starts a timer that warns if the ranks do not find each other, and later ends this process. They never find
// each other if, for example, the launcher started different commands. Destroying the timer stops it.
std::jthread watch_start(const comm::Launch& launch, const comm::StandstillLimits& limits) {
  return std::jthread([=](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    const auto is_over_within = [&](std::chrono::milliseconds limit) {
      never.wait_for(lock, stop, limit, [] { return false; });
      return stop.stop_requested();
    };
    const auto text = [&](std::chrono::milliseconds limit) {
      return fmt::format(
          "the {} ranks of this run have not found each other within {:g} s; does each run the same "
          "command, and does the network work?",
          launch.size, std::chrono::duration<double>(limit).count());
    };
    if (is_over_within(limits.warn)) return;
    if (launch.rank <= 1) print_in_background(text(limits.warn));  // rank 1 too, as rank 0 may be missing
    if (is_over_within(limits.end - limits.warn)) return;
    end_process(last_lines(launch.rank, text(limits.end), kBadInput), kBadInput);
  });
}

// Connects this rank to the others. Returns nullopt if they cannot do the same work.
std::optional<comm::World> join(const std::string& command, const comm::Launch& launch,
                                const Composed& composed) {
  const std::chrono::milliseconds timeout =
      composed.resolved ? timeout_of(composed.resolved->values) : comm::WatchdogOptions().timeout;
  const std::jthread timer = watch_start(launch, comm::standstill_limits(timeout));
  comm::World world = comm::connect(launch, timeout);
  return agree(command, composed, *world.all) ? std::optional(world) : std::nullopt;
}

// Runs the work in a process that a launcher started.
int work_as_rank(const std::string& command, const comm::Launch& launch, const config::Request& request,
                 const RankWork& work) {
  const Composed composed = try_compose(request);
  std::optional<comm::World> joined = join(command, launch, composed);
  if (!joined) return kBadInput;
  comm::World world = std::move(*joined);
  const auto operations = std::make_shared<comm::OperationCount>(0);
  world.all = comm::counted(world.all, operations);
  const int rank = world.all->rank();
  comm::Watchdog watchdog(
      *world.all, watchdog_options(launch, composed.resolved->values, operations),
      [&world, rank](const comm::RankFailure& failure) { end_after(failure, world, rank); });
  std::exception_ptr error;
  try {
    config::mesh_of(composed.resolved->values, world.all->size());
    share_cores(world);
    const int status = work(*composed.resolved, world);
    world.all->barrier();  // ranks leave together
    return status;
  } catch (...) {
    error = std::current_exception();
  }
  const End end = end_of(error);
  watchdog.fail(end.message, end.status);
  end_process(last_lines(rank, end.message, end.status), end.status);
}

int work_alone(const config::Resolved& resolved, const RankWork& work) {
  try {
    return work(resolved, {});
  } catch (const train::TrainingFailure& failure) {
    commands::print_error(message_of(failure));
    return kTrainingFailed;
  }
}

}  // namespace

int on_ranks(const std::string& command, const config::Request& request, const RankWork& work) {
  if (gpu_count() == 0) keep_freed_memory();
  const comm::Launch launch = comm::read_launch(comm::this_environment());
  if (launch.launcher != comm::Launcher::none) return work_as_rank(command, launch, request, work);
  const config::Resolved resolved = config::compose(request);
  const auto gpus = static_cast<std::int64_t>(list_gpus().size());
  const std::int64_t ranks = config::ranks_to_start(resolved.values, gpus);
  if (ranks > 1) return start_ranks(resolved.values, ranks, gpus);
  return work_alone(resolved, work);
}

int in_one_process(const config::Request& request, const RankWork& work) {
  if (gpu_count() == 0) keep_freed_memory();
  return work_alone(config::compose(request), work);
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
