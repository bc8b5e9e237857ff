#include "config/mesh.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::config {
namespace {

RunConfig run_of(Trainer trainer, MeshConfig mesh = {}) {
  RunConfig run;
  run.trainer = trainer;
  run.mesh = mesh;
  return run;
}

std::string refusal(const RunConfig& run, std::int64_t ranks) {
  EXPECT_FALSE(find_mesh(run, ranks));
  try {
    mesh_of(run, ranks);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Mesh, FsdpShardsOverWhatTheOthersLeave) {
  const Trainer fsdp = Trainer::Fsdp;
  EXPECT_EQ(mesh_of(run_of(fsdp), 8), (MeshShape{1, 8, 1}));
  EXPECT_EQ(mesh_of(run_of(fsdp, {.replica = 2, .shard = {}, .tensor = 2}), 8), (MeshShape{2, 2, 2}));
  EXPECT_EQ(mesh_of(run_of(fsdp, {.replica = {}, .shard = 4, .tensor = 2}), 8), (MeshShape{1, 4, 2}));
  EXPECT_EQ(mesh_of(run_of(fsdp), 1), MeshShape{});
}

TEST(Mesh, TensorParallelSplitsOverWhatTheOthersLeave) {
  const Trainer tensor = Trainer::TensorParallel;
  EXPECT_EQ(mesh_of(run_of(tensor), 8), (MeshShape{1, 1, 8}));
  EXPECT_EQ(mesh_of(run_of(tensor, {.replica = {}, .shard = 2, .tensor = {}}), 8), (MeshShape{1, 2, 4}));
}

TEST(Mesh, BasicTrainerIsOneProcess) {
  EXPECT_EQ(mesh_of(run_of(Trainer::Basic), 1), MeshShape{});
  EXPECT_EQ(mesh_of(run_of(Trainer::Basic, {.replica = 1, .shard = 1, .tensor = 1}), 1), MeshShape{});
  EXPECT_EQ(refusal(run_of(Trainer::Basic, {.replica = {}, .shard = 2, .tensor = {}}), 1),
            "trainer=BasicTrainer is one process and has no mesh, but mesh.shard=2 asks for 2 ranks; "
            "trainer=FSDPTrainer or TensorParallelTrainer uses several");
  EXPECT_EQ(refusal(run_of(Trainer::Basic, {.replica = 2, .shard = 2, .tensor = {}}), 4),
            "trainer=BasicTrainer is one process and has no mesh, but mesh.replica=2, mesh.shard=2 ask for 4 "
            "ranks; trainer=FSDPTrainer or TensorParallelTrainer uses several");
  EXPECT_EQ(
      refusal(run_of(Trainer::Basic), 2),
      "trainer=BasicTrainer is one process, but there are 2 ranks; start one, or trainer=FSDPTrainer or "
      "TensorParallelTrainer uses several");
}

TEST(Mesh, AProductThatIsNotTheRanksNamesKeysAndWhatFits) {
  EXPECT_EQ(
      refusal(run_of(Trainer::Fsdp, {.replica = {}, .shard = 4, .tensor = 2}), 6),
      "mesh.shard=4, mesh.tensor=2 need 8 ranks, but there are 6; start that many, or choose mesh sizes "
      "whose product is 6 (divisors: 1, 2, 3, 6); mesh.shard=null takes the remaining ranks");
  EXPECT_EQ(
      refusal(run_of(Trainer::Fsdp, {.replica = {}, .shard = {}, .tensor = 4}), 6),
      "mesh.tensor=4 needs a multiple of 4 ranks, but there are 6; start that many, or choose mesh sizes "
      "whose product is 6 (divisors: 1, 2, 3, 6); mesh.shard=null takes the remaining ranks");
  EXPECT_EQ(refusal(run_of(Trainer::TensorParallel, {.replica = {}, .shard = 2, .tensor = {}}), 1),
            "mesh.shard=2 needs a multiple of 2 ranks, but there is 1; start that many, or choose mesh sizes "
            "whose product is 1 (divisors: 1); mesh.tensor=null takes the remaining ranks");
  // A mesh of fewer ranks than there are is an error too.
  EXPECT_FALSE(find_mesh(run_of(Trainer::Fsdp, {.replica = {}, .shard = 2, .tensor = {}}), 4));
}

TEST(Mesh, HugeNumbersAreRefusedLikeOthers) {
  constexpr std::int64_t kHuge = 1'000'000'000;
  EXPECT_FALSE(find_mesh(run_of(Trainer::Fsdp, {.replica = kHuge, .shard = kHuge, .tensor = kHuge}), 8));
  EXPECT_FALSE(find_mesh(run_of(Trainer::Fsdp, {.replica = 8, .shard = kHuge, .tensor = {}}), 8));
}

TEST(Mesh, ProcessesToStart) {
  EXPECT_EQ(ranks_to_start(run_of(Trainer::Basic), 4), 1);
  for (const Trainer trainer : {Trainer::Fsdp, Trainer::TensorParallel}) {
    EXPECT_EQ(ranks_to_start(run_of(trainer), 4), 4);  // one per GPU
    EXPECT_EQ(ranks_to_start(run_of(trainer), 0), 1);
    EXPECT_EQ(ranks_to_start(run_of(trainer, {.replica = {}, .shard = 2, .tensor = 3}), 0), 6);
    EXPECT_EQ(ranks_to_start(run_of(trainer, {.replica = {}, .shard = 2, .tensor = 1}), 4), 2);
    EXPECT_EQ(ranks_to_start(run_of(trainer, {.replica = 8, .shard = {}, .tensor = {}}), 4), 8);
  }
  EXPECT_EQ(ranks_to_start(run_of(Trainer::Fsdp, {.replica = {}, .shard = {}, .tensor = 2}), 4), 4);
  EXPECT_EQ(ranks_to_start(run_of(Trainer::Fsdp, {.replica = {}, .shard = 2, .tensor = {}}), 4), 2);
  EXPECT_EQ(ranks_to_start(run_of(Trainer::TensorParallel, {.replica = {}, .shard = {}, .tensor = 2}), 4), 2);
}

TEST(Mesh, KnowsItsRanksAndItsWords) {
  const MeshShape mesh{2, 4, 2};
  EXPECT_EQ(mesh.ranks(), 16);
  EXPECT_EQ(mesh.data_ranks(), 8);
  EXPECT_EQ(describe(mesh), "2 replicas x 4 shards x 2 tensor");
  EXPECT_EQ(describe({1, 4, 1}), "4 shards");
  EXPECT_EQ(describe({}), "");
  EXPECT_EQ(ranks_asked_for(run_of(Trainer::Fsdp)), 1);
  EXPECT_EQ(ranks_asked_for(run_of(Trainer::Fsdp, {.replica = {}, .shard = 4, .tensor = 2})), 8);
}

}  // namespace
}  // namespace dpo::config
