#include "comm/launch.h"

#include <charconv>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace dpo::comm {
namespace {

constexpr const char* kAdvice = "unset the variables of other runs, or use a single launcher";

// Names of a launcher's variables.
struct Names {
  Launcher launcher;
  const char *rank, *size, *local_rank, *local_size;
};

constexpr Names kVariables{Launcher::variables, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // Returns nullptr if the variable is unset or empty.
  const std::string* text(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() || found->second.empty() ? nullptr : &found->second;
  }

  std::optional<int> number(const std::string& name, int least, int most) const {
    const std::string* given = text(name);
    if (!given) return std::nullopt;
    int value = 0;
    const char* end = given->data() + given->size();
    const auto [stop, error] = std::from_chars(given->data(), end, value);
    if (error != std::errc() || stop != end || value < least || value > most)
      throw UserError(
          fmt::format("the environment variable {} is '{}', expected a whole number from {} to {}", name,
                      *given, least, most));
    return value;
  }

  std::string shown(const std::string& name) const { return fmt::format("{}={}", name, *text(name)); }

 private:
  const Environment& environment_;
};

constexpr int kMostRanks = 1'000'000;

// Throws unless index < count, if both are set.
void check_below(const Reader& reader, const char* index, const char* count) {
  if (reader.text(index) && reader.text(count) &&
      *reader.number(index, 0, kMostRanks) >= *reader.number(count, 1, kMostRanks))
    throw UserError(fmt::format("{} must be below {}: ranks count from 0, and each process has its own",
                                reader.shown(index), reader.shown(count)));
}

// Returns nullopt if this launcher set no variables.
std::optional<Launch> read_names(const Reader& reader, const Names& names) {
  const auto rank = reader.number(names.rank, 0, kMostRanks), size = reader.number(names.size, 1, kMostRanks);
  const auto local_rank = reader.number(names.local_rank, 0, kMostRanks),
             local_size = reader.number(names.local_size, 1, kMostRanks);
  if (!rank && !size && !local_rank) return std::nullopt;
  for (const char* name : {names.rank, names.size})
    if (!reader.text(name))
      throw UserError(fmt::format("{} is set, but {} is not; a launcher sets both: {}",
                                  reader.shown(rank   ? names.rank
                                               : size ? names.size
                                                      : names.local_rank),
                                  name, kAdvice));
  check_below(reader, names.rank, names.size);
  check_below(reader, names.local_rank, names.local_size);
  if (local_size && *local_size > *size)
    throw UserError(fmt::format("{} is larger than {}; {}", reader.shown(names.local_size),
                                reader.shown(names.size), kAdvice));
  return Launch{.launcher = names.launcher,
                .rank = *rank,
                .size = *size,
                .local_rank = local_rank,
                .local_size = local_size,
                .address = {},
                .port = {},
                .store_is_hosted = false,
                .attempt = 0};
}

// Returns a task of an srun step with several tasks. A batch script and an interactive shell have the job's
// variables too but are not tasks.
std::optional<Launch> read_slurm(const Reader& reader) {
  const bool in_step =
      reader.text("SLURM_STEP_NUM_TASKS") || reader.text("SLURM_STEP_ID") || !reader.text("SLURM_JOB_ID");
  const char* count = reader.text("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (!in_step || !reader.text("SLURM_PROCID") || !reader.text(count)) return std::nullopt;
  const int size = *reader.number(count, 1, kMostRanks);
  if (size == 1) return std::nullopt;
  check_below(reader, "SLURM_PROCID", count);
  Launch launch{.launcher = Launcher::slurm,
                .rank = *reader.number("SLURM_PROCID", 0, kMostRanks),
                .size = size,
                .local_rank = reader.number("SLURM_LOCALID", 0, kMostRanks),
                .local_size = {},
                .address = {},
                .port = {},
                .store_is_hosted = false,
                .attempt = 0};
  return launch;
}

void check_equal(const Reader& reader, const char* first, const char* second) {
  if (reader.text(first) && reader.text(second) &&
      *reader.number(first, 0, kMostRanks) != *reader.number(second, 0, kMostRanks))
    throw UserError(fmt::format("{} contradicts {}; {}", reader.shown(first), reader.shown(second), kAdvice));
}

void read_rendezvous(const Reader& reader, Launch& launch) {
  const std::string* address = reader.text("MASTER_ADDR");
  const auto port = reader.number("MASTER_PORT", 1, 65535);
  if (address) launch.address = *address;
  if (port) launch.port = static_cast<std::uint16_t>(*port);
  if (launch.launcher == Launcher::variables && launch.size > 1 && (!address || !port))
    throw UserError(
        fmt::format("{} is set, but {} is not; a launcher that sets RANK and WORLD_SIZE sets MASTER_ADDR and "
                    "MASTER_PORT too",
                    reader.shown("WORLD_SIZE"), address ? "MASTER_PORT" : "MASTER_ADDR"));
  const std::string* hosted = reader.text("TORCHELASTIC_USE_AGENT_STORE");
  launch.store_is_hosted = hosted && *hosted == "True";
  launch.attempt = reader.number("TORCHELASTIC_RESTART_COUNT", 0, kMostRanks).value_or(0);
}

}  // namespace

Environment this_environment() {
  Environment environment;
  for (char** entry = ::environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Launch read_launch(const Environment& environment) {
  const Reader reader(environment);
  const auto variables = read_names(reader, kVariables), mpi = read_names(reader, kOpenMpi);
  if (variables && mpi) {
    check_equal(reader, kVariables.rank, kOpenMpi.rank);
    check_equal(reader, kVariables.size, kOpenMpi.size);
    check_equal(reader, kVariables.local_rank, kOpenMpi.local_rank);
  }
  // srun may have started mpirun or torchrun, one on each machine.
  const auto slurm = mpi || reader.text("TORCHELASTIC_RUN_ID") ? std::nullopt : read_slurm(reader);
  if (variables && slurm) {
    check_equal(reader, kVariables.rank, "SLURM_PROCID");
    check_equal(reader, kVariables.size,
                reader.text("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  }
  if (mpi) check_equal(reader, kOpenMpi.rank, "PMIX_RANK");
  Launch launch = mpi.value_or(variables.value_or(slurm.value_or(Launch{})));
  read_rendezvous(reader, launch);
  return launch;
}

}  // namespace dpo::comm
