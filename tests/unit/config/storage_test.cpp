#include "config/storage.h"

#include <gtest/gtest.h>

namespace dpo::config {
namespace {

RunConfig run_in(Dtype stored, std::optional<Dtype> computed = std::nullopt) {
  RunConfig run;
  run.model.policy_dtype = stored;
  run.model.fsdp_policy_mp = computed;
  run.gradient_accumulation_steps = 1;
  return run;
}

Storage on_one_gpu(const RunConfig& run) { return storage_of(run, {}, /*on_gpu=*/true); }

TEST(Storage, AllIsInTheDtypeOfTheWeightsByDefault) {
  const Storage storage = on_one_gpu(run_in(Dtype::bfloat16));
  for (const Dtype dtype : {storage.stored, storage.computed, storage.reference, storage.gradients})
    EXPECT_EQ(dtype, Dtype::bfloat16);
  EXPECT_FALSE(storage.in_two_parts());
}

TEST(Storage, OnlyFloat32OverBfloat16IsInTwoParts) {
  const RunConfig mixed = run_in(Dtype::float32, Dtype::bfloat16);
  EXPECT_TRUE(on_one_gpu(mixed).in_two_parts());
  EXPECT_EQ(on_one_gpu(mixed).reference, Dtype::bfloat16);
  EXPECT_FALSE(on_one_gpu(run_in(Dtype::float32, Dtype::float16)).in_two_parts());
  EXPECT_FALSE(on_one_gpu(run_in(Dtype::float32)).in_two_parts());
}

TEST(Storage, SumsOfGradientsAreInFloat32) {
  RunConfig run = run_in(Dtype::bfloat16);
  EXPECT_EQ(storage_of(run, {.replica = 1, .shard = 1, .tensor = 2}, true).gradients, Dtype::bfloat16);
  EXPECT_EQ(storage_of(run, {.replica = 2, .shard = 1, .tensor = 1}, true).gradients, Dtype::float32);
  run.gradient_accumulation_steps = 2;
  EXPECT_EQ(on_one_gpu(run).gradients, Dtype::float32);
}

TEST(Storage, GradientsAreFreedInTheBackwardPassOfOneRankWithoutClipping) {
  RunConfig run = run_in(Dtype::float32);
  run.max_grad_norm.reset();
  EXPECT_TRUE(on_one_gpu(run).optimizer_in_backward);
  EXPECT_FALSE(storage_of(run, {.replica = 1, .shard = 1, .tensor = 2}, true).optimizer_in_backward);
  RunConfig adapter = run, clipped = run, several = run;
  adapter.adapter.name = Adapter::lora;
  clipped.max_grad_norm = 1;
  several.gradient_accumulation_steps = 2;
  for (const RunConfig& other : {adapter, clipped, several})
    EXPECT_FALSE(on_one_gpu(other).optimizer_in_backward);
}

TEST(Storage, OnlyShardsAccumulateUnsharded) {
  RunConfig run = run_in(Dtype::float32);
  run.fsdp_accumulate = Accumulation::whole;
  EXPECT_FALSE(on_one_gpu(run).accumulates_unsharded);
  EXPECT_TRUE(storage_of(run, {.replica = 1, .shard = 2, .tensor = 1}, true).accumulates_unsharded);
}

TEST(Storage, OffloadIsForGpusAndForWhatIsThere) {
  RunConfig run = run_in(Dtype::float32);
  run.offload = Offload::both;
  run.optimizer = Optimizer::AdamW;
  EXPECT_TRUE(on_one_gpu(run).optimizer_on_host);
  EXPECT_TRUE(on_one_gpu(run).reference_on_host);
  const Storage on_cpu = storage_of(run, {}, /*on_gpu=*/false);
  EXPECT_FALSE(on_cpu.optimizer_on_host || on_cpu.reference_on_host);
  run.adapter.name = Adapter::lora;
  EXPECT_FALSE(on_one_gpu(run).reference_on_host);
  for (const Optimizer optimizer : {Optimizer::SGD, Optimizer::Adafactor}) {
    run.optimizer = optimizer;
    EXPECT_FALSE(on_one_gpu(run).optimizer_on_host);
  }
}

TEST(Storage, OneProcessOfBasicTrainerSpreadsLayers) {
  RunConfig run;
  run.trainer = Trainer::Basic;
  EXPECT_TRUE(spreads_layers(run, 1));
  EXPECT_FALSE(spreads_layers(run, 2));
  run.trainer = Trainer::Fsdp;
  EXPECT_FALSE(spreads_layers(run, 1));
}

// An update changes the trained weights, so their copies last until then at most. A separate reference has
// one pass in a microbatch, so keeping its copies for an update would save little.
TEST(Storage, GatheredCopiesAreKeptWhileTheyAreUseful) {
  RunConfig run = run_in(Dtype::bfloat16);
  const auto lifetimes = [&](std::optional<Reshard> reshard, std::int64_t shards = 2) {
    run.fsdp_reshard = reshard;
    const Storage storage = storage_of(run, {.replica = 1, .shard = shards, .tensor = 1}, true);
    return std::pair(storage.reshard_trained, storage.reshard_frozen);
  };
  using enum Reshard;
  EXPECT_EQ(lifetimes(std::nullopt), std::pair(pass, pass));
  EXPECT_EQ(lifetimes(pass), std::pair(pass, pass));
  EXPECT_EQ(lifetimes(update), std::pair(update, pass));
  EXPECT_EQ(lifetimes(never), std::pair(update, never));
  EXPECT_EQ(lifetimes(never, /*shards=*/1), std::pair(pass, pass));
  run.adapter.name = Adapter::lora;
  EXPECT_EQ(lifetimes(update), std::pair(update, update));
  EXPECT_EQ(lifetimes(never), std::pair(update, never));
}

}  // namespace
}  // namespace dpo::config
