#include "config/mesh.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/divisors.h"
#include "base/error.h"

namespace dpo::config {
namespace {

// Keys may be huge, so their products are capped here, far above any number of ranks.
constexpr std::int64_t kMostRanks = 1'000'000'000;

std::int64_t limited_product(std::int64_t a, std::int64_t b) {
  return a > kMostRanks / b ? kMostRanks : a * b;
}

// Returns the key that takes the remaining ranks if it is not given.
const char* open_key(const RunConfig& run) {
  return run.trainer == Trainer::TensorParallel ? "mesh.tensor" : "mesh.shard";
}

std::vector<std::string> given_keys(const MeshConfig& mesh) {
  std::vector<std::string> keys;
  const auto add = [&keys](const char* name, const std::optional<std::int64_t>& value) {
    if (value) keys.push_back(fmt::format("{}={}", name, *value));
  };
  add("mesh.replica", mesh.replica);
  add("mesh.shard", mesh.shard);
  add("mesh.tensor", mesh.tensor);
  return keys;
}

std::string counted(std::int64_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

std::string basic_contradiction(const RunConfig& run, std::int64_t ranks) {
  constexpr const char* kOthers = "trainer=FSDPTrainer or TensorParallelTrainer uses several";
  const std::vector<std::string> keys = given_keys(run.mesh);
  const std::string asking = fmt::format("{} {}", fmt::join(keys, ", "), keys.size() == 1 ? "asks" : "ask");
  if (ranks_asked_for(run) > 1)
    return fmt::format("trainer=BasicTrainer is one process and has no mesh, but {} for {}; {}", asking,
                       counted(ranks_asked_for(run)), kOthers);
  return fmt::format("trainer=BasicTrainer is one process, but there are {}; start one, or {}",
                     counted(ranks), kOthers);
}

std::string contradiction(const RunConfig& run, std::int64_t ranks) {
  if (run.trainer == Trainer::Basic) return basic_contradiction(run, ranks);
  const std::vector<std::string> keys = given_keys(run.mesh);
  const bool open = run.trainer == Trainer::TensorParallel ? !run.mesh.tensor : !run.mesh.shard;
  return fmt::format(
      "{} {} {}{}, but there {} {}; start that many, or choose mesh sizes whose product is {} "
      "(divisors: {}); {}=null takes the remaining ranks",
      fmt::join(keys, ", "), keys.size() == 1 ? "needs" : "need", open ? "a multiple of " : "",
      counted(ranks_asked_for(run)), ranks == 1 ? "is" : "are", ranks, ranks,
      fmt::join(divisors(ranks), ", "), open_key(run));
}

}  // namespace

std::int64_t ranks_asked_for(const RunConfig& run) {
  const MeshConfig& mesh = run.mesh;
  return limited_product(limited_product(mesh.replica.value_or(1), mesh.shard.value_or(1)),
                         mesh.tensor.value_or(1));
}

std::int64_t ranks_to_start(const RunConfig& run, std::int64_t gpus) {
  if (run.trainer == Trainer::Basic) return 1;
  const bool is_open = run.trainer == Trainer::TensorParallel ? !run.mesh.tensor : !run.mesh.shard;
  return is_open ? std::max(ranks_asked_for(run), gpus) : ranks_asked_for(run);
}

std::optional<MeshShape> find_mesh(const RunConfig& run, std::int64_t ranks) {
  const std::int64_t asked = ranks_asked_for(run);
  if (asked < 1 || asked > ranks || ranks % asked != 0) return std::nullopt;
  MeshShape mesh{run.mesh.replica.value_or(1), run.mesh.shard.value_or(1), run.mesh.tensor.value_or(1)};
  const std::int64_t left = ranks / asked;
  if (run.trainer == Trainer::Fsdp && !run.mesh.shard) mesh.shard = left;
  if (run.trainer == Trainer::TensorParallel && !run.mesh.tensor) mesh.tensor = left;
  if (mesh.ranks() != ranks || (run.trainer == Trainer::Basic && ranks > 1)) return std::nullopt;
  return mesh;
}

MeshShape mesh_of(const RunConfig& run, std::int64_t ranks) {
  const std::optional<MeshShape> mesh = find_mesh(run, ranks);
  if (!mesh) throw UserError(contradiction(run, ranks));
  return *mesh;
}

std::string describe(const MeshShape& mesh) {
  std::vector<std::string> parts;
  if (mesh.replica > 1) parts.push_back(fmt::format("{} replicas", mesh.replica));
  if (mesh.shard > 1) parts.push_back(fmt::format("{} shards", mesh.shard));
  if (mesh.tensor > 1) parts.push_back(fmt::format("{} tensor", mesh.tensor));
  return fmt::format("{}", fmt::join(parts, " x "));
}

}  // namespace dpo::config
