// Computes memory by hand. The tests of the tensor tables check P(Pythia-2.8B) = 2,775,208,960 and
// P(Llama-7B) = 6,738,415,616 against the published counts.
#include "plan/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "test_plans.h"

namespace dpo::plan {
namespace {

constexpr double kPythia = 2'775'208'960;
constexpr double kLlama = 6'738'415'616;

double part(const Plan& plan, const std::string& name) {
  for (const MemoryPart& p : plan.memory.parts)
    if (p.name == name) return p.bytes;
  ADD_FAILURE() << "no part " << name;
  return 0;
}

void expect_bytes(const Plan& plan, const std::string& name, double expected) {
  // The only difference may be rounding up to whole groups of 256 parameters per block and rank.
  EXPECT_NEAR(part(plan, name), expected, 1e5) << name;
}

TEST(Memory, Float32OnOneGpu) {
  // RMSprop keeps one value per parameter: 4P + 4P + 4P, no master weights.
  const Plan pythia = plan_of("model=pythia28");
  expect_bytes(pythia, "parameters", 11'100'835'840);  // 4 * 2,775,208,960
  expect_bytes(pythia, "gradients", 11'100'835'840);
  expect_bytes(pythia, "optimizer", 11'100'835'840);
  expect_bytes(pythia, "master weights", 0);
  expect_bytes(pythia, "reference", 0);
  expect_bytes(pythia, "gathered blocks", 0);
  // Adam keeps two: 4P + 4P + 8P = 16 * 6,738,415,616 = 107,814,649,856.
  const Plan llama = plan_of("model=llama7b optimizer=Adam");
  EXPECT_NEAR(part(llama, "parameters") + part(llama, "gradients") + part(llama, "optimizer"),
              107'814'649'856, 1);
  EXPECT_FALSE(llama.fits());
}

TEST(Memory, MixedPrecisionOnOneGpu) {
  // 2P + 2P, plus the other 17 bits of float32 weights, plus 4P for RMSprop's one value or 8P for Adam's two.
  const auto kept = [](const Plan& plan) {
    return part(plan, "parameters") + part(plan, "gradients") + part(plan, "optimizer") +
           part(plan, "master weights");
  };
  EXPECT_NEAR(kept(plan_of("model=pythia28 model.fsdp_policy_mp=bfloat16")), 10.125 * kPythia, 1);
  EXPECT_NEAR(kept(plan_of("model=pythia28 model.fsdp_policy_mp=bfloat16 optimizer=AdamW")), 14.125 * kPythia,
              1);
  EXPECT_NEAR(kept(plan_of("model=llama7b model.fsdp_policy_mp=bfloat16 optimizer=Adam")), 14.125 * kLlama,
              1);
  EXPECT_NEAR(kept(plan_of("model=pythia28 model.fsdp_policy_mp=bfloat16 optimizer=SGD")), 6.125 * kPythia,
              1);
}

TEST(Memory, PureBfloat16KeepsEverythingInTwoBytes) {
  const Plan plan = plan_of("model=pythia28 model.policy_dtype=bfloat16 optimizer=AdamW");
  expect_bytes(plan, "parameters", 2 * kPythia);
  expect_bytes(plan, "master weights", 0);
  expect_bytes(plan, "optimizer", 4 * kPythia);
}

TEST(Memory, ShardedOverFourGpus) {
  const Plan plan = plan_of(kReferenceDpo + "fsdp_reshard=pass");
  expect_bytes(plan, "parameters", 1'387'604'480);      // 2P / 4
  expect_bytes(plan, "gradients", 2'775'208'960);       // 4P / 4: sums over two microbatches
  expect_bytes(plan, "optimizer", 2'775'208'960);       // 4P / 4, RMSprop
  expect_bytes(plan, "master weights", 1'474'329'760);  // 17/8 P / 4
  expect_bytes(plan, "reference", 1'387'604'480);       // 2P / 4, live
  // The peak is in the backward pass of the embedding, which has 50,304 * 2560 = 128,778,240 parameters: the
  // embedding and its gradient in bfloat16, and the buffer that is exchanged in float32.
  expect_bytes(plan, "gathered blocks", 8 * 128'778'240.0);
}

TEST(Memory, ShardedOverEightGpus) {
  const Plan plan = plan_of(
      "model=llama7b loss=dpo loss.beta=0.1 trainer=FSDPTrainer fsdp_reshard=pass batch_size=64 "
      "optimizer=AdamW "
      "model.fsdp_policy_mp=bfloat16 --gpus 8");
  expect_bytes(plan, "parameters", 1'684'603'904);      // 2 * 6,738,415,616 / 8
  expect_bytes(plan, "optimizer", 6'738'415'616);       // 8P / 8
  expect_bytes(plan, "master weights", 1'789'891'648);  // 17/8 P / 8
  // A layer of Llama-7B: 4 * 4096^2 + 3 * 4096 * 11008 + 2 * 4096 = 202,383,360 parameters, more than the
  // head's 131,076,096: two gathered and a gradient in bfloat16, another in float32, 10 bytes each.
  expect_bytes(plan, "gathered blocks", 2'023'833'600);
}

TEST(Memory, OneShardedRankGathersNothing) {
  const Plan plan = plan_of("model=pythia28 trainer=FSDPTrainer batch_size=8");
  expect_bytes(plan, "gathered blocks", 0);
  expect_bytes(plan, "parameters", 4 * kPythia);
}

double total(const std::string& line) { return plan_of(line).memory.total(); }

TEST(Memory, MoreShardsNeverNeedMore) {
  for (const std::string model : {"gpt2-large", "pythia28", "llama7b"})
    for (const std::string rest : {"", "optimizer=AdamW model.fsdp_policy_mp=bfloat16",
                                   "loss=dpo loss.beta=0.1 reference=live activation_checkpointing=true"}) {
      double before = 1e30;
      for (const int shards : {2, 3, 4, 8, 64}) {
        const std::string line =
            fmt::format("model={} {} trainer=FSDPTrainer fsdp_reshard=pass batch_size={} --gpus {}", model,
                        rest, 4 * shards, shards);
        EXPECT_LT(total(line), before) << line;
        before = total(line);
      }
    }
}

TEST(Memory, OneShardIsBasicTrainer) {
  const std::string line = "model=pythia28 loss=dpo loss.beta=0.1 batch_size=8 reference=live ";
  const Plan basic = plan_of(line + "trainer=BasicTrainer"), one = plan_of(line + "trainer=FSDPTrainer");
  for (const MemoryPart& p : basic.memory.parts) EXPECT_EQ(p.bytes, part(one, p.name)) << p.name;
  EXPECT_EQ(basic.timing.update, one.timing.update);
}

TEST(Memory, ShardsOfTensorParallelGroups) {
  // A quarter of the test below for 2 tensor ranks: 4 * ((P - 266,240) / 2 + 266,240) / 4.
  const Plan plan = plan_of(
      "model=llama7b trainer=FSDPTrainer fsdp_reshard=pass batch_size=8 mesh.shard=4 mesh.tensor=2 --gpus 8");
  expect_bytes(plan, "parameters", (kLlama - 266'240) / 2 + 266'240);
  // A layer's matrices are halved, but not its two norms: 101,187,584 parameters, gathered or as gradient
  // three times and in transfer once, 4 bytes each.
  expect_bytes(plan, "gathered blocks", 16.0 * (202'383'360 / 2 + 4096));
  // A tensor-parallel group of 2 without shards has the same examples: activations and logits are equal.
  const Plan two = plan_of("model=llama7b trainer=TensorParallelTrainer batch_size=2 --gpus 2");
  expect_bytes(plan, "activations", part(two, "activations"));
  expect_bytes(plan, "logits chunk", part(two, "logits chunk"));
}

TEST(Memory, ReplicasNeedWhatOneOfThemNeeds) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer optimizer=AdamW ";
  const Plan one = plan_of(line + "batch_size=8 --gpus 4");
  const Plan two = plan_of(line + "batch_size=16 mesh.replica=2 --gpus 4 --nodes 2");
  for (const MemoryPart& p : one.memory.parts) EXPECT_EQ(p.bytes, part(two, p.name)) << p.name;
}

TEST(Memory, GradientsSummedWhole) {
  const std::string line =
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass batch_size=32 model.fsdp_policy_mp=bfloat16 "
      "--gpus 4 ";
  expect_bytes(plan_of(line), "gradients", 4 * kPythia / 4);  // float32, since ranks are summed
  // In float32, every rank has the sums and its quarter of them, without another buffer for a block.
  const Plan whole = plan_of(line + "fsdp_accumulate=whole gradient_accumulation_steps=2");
  expect_bytes(whole, "gradients", 4 * kPythia + 4 * kPythia / 4);
  // The first layer (12 * 2560^2 + 13 * 2560 parameters), its gradient and the embedding are in bfloat16.
  expect_bytes(whole, "gathered blocks", 2 * (2 * 78'676'480.0 + 128'778'240.0));
}

TEST(Memory, ReductionsInBfloat16AreHalfAsLarge) {
  const Plan plan = plan_of(kReferenceDpo + "fsdp_reshard=pass fsdp_reduce_dtype=bfloat16");
  expect_bytes(plan, "gathered blocks", 6 * 128'778'240.0);
}

TEST(Memory, RanksOfAProcessorShareIt) {
  Inputs in = inputs_of("model=gpt2-large trainer=FSDPTrainer mesh.shard=4 batch_size=8 --device cpu");
  in.machine.device.memory = 100e9;
  const Plan plan = make_plan(in);
  EXPECT_EQ(plan.mesh, (config::MeshShape{1, 4, 1}));
  EXPECT_NEAR(plan.memory.available, 97e9 / 4, 1);
  expect_bytes(plan, "workspace",
               0.25 * (1 << 30) + 0.1 * (part(plan, "activations") + part(plan, "logits chunk")));
}

TEST(Memory, BasicTrainerSpreadsLayers) {
  // There are 33 blocks of 78,671,360 (a layer: 12 * 2560^2 + 13 * 2560 = 78,676,480) and two ends of 128.8M.
  // No device can hold less than a quarter, and none needs more than a quarter and one block.
  const Plan plan = plan_of("model=pythia28 --gpus 4");
  EXPECT_GE(part(plan, "parameters"), kPythia);
  EXPECT_LE(part(plan, "parameters"), kPythia + 4 * 128'783'360.0);
}

// All experts are in memory, although a token uses only some.
TEST(Memory, ExpertsAreParameters) {
  const std::string line = "model=qwen3-30b-a3b ";
  expect_bytes(plan_of(line), "parameters", 4 * 30'532'122'624.0);
  // Norms of 48 * (2 * 2048 + 2 * 128) + 2048 and routers of 48 * 128 * 2048 are on every rank.
  const double whole = 48 * (2 * 2048 + 2 * 128) + 2048 + 48 * 128 * 2048;
  expect_bytes(plan_of(line + "trainer=TensorParallelTrainer --gpus 4"), "parameters",
               30'532'122'624.0 - whole + 4 * whole);
}

TEST(Memory, TensorParallelHoldsNormsWhole) {
  const Plan plan = plan_of("model=llama7b trainer=TensorParallelTrainer --gpus 4");
  // Every rank has the 65 norms of 4096 parameters, and the rest is divided: (P - 266,240) / 4 + 266,240
  // parameters of 4 bytes.
  expect_bytes(plan, "parameters", (kLlama - 266'240) + 4 * 266'240);
}

TEST(Memory, ReferenceByItsOwnDtypeAndPlace) {
  const std::string dpo = "model=pythia28 loss=dpo loss.beta=0.1 ";
  expect_bytes(plan_of(dpo + "reference=live"), "reference", 4 * kPythia);  // in the policy's dtype
  expect_bytes(plan_of(dpo + "reference=live model.reference_dtype=float16"), "reference", 2 * kPythia);
  expect_bytes(plan_of(dpo + "reference=cached"), "reference", 0);
  expect_bytes(plan_of(dpo + "loss.reference_free=true"), "reference", 0);
}

// GPT-NeoX has 32 layers with h = 2560: r (h + 3h + h + h + h + 4h + 4h + h) = 16 r h per layer.
TEST(Memory, OfAnAdapterIsThatOfTheFrozenModelAndLittleMore) {
  const std::string line =
      "model=pythia28 loss=dpo loss.beta=0.1 reference=live model.fsdp_policy_mp=bfloat16 optimizer=AdamW ";
  const Plan lora = plan_of(line + "adapter=lora adapter.r=8"), full = plan_of(line);
  constexpr double kAdapter = 32.0 * 16 * 8 * 2560;
  expect_bytes(lora, "parameters", 2 * (kPythia + kAdapter));
  expect_bytes(lora, "gradients", 2 * kAdapter);
  expect_bytes(lora, "optimizer", 8 * kAdapter);
  expect_bytes(lora, "master weights", 2.125 * kAdapter);
  expect_bytes(lora, "reference", 0);
  EXPECT_NEAR(lora.disk.checkpoint, 12 * kAdapter, 1);
  EXPECT_GT(part(full, "reference"), kPythia);
  // Only A x is saved in addition.
  EXPECT_NEAR(part(lora, "activations") / part(full, "activations"), 1, 0.01);
  // DoRA saves the output of each matmul: 9 h of 34 h.
  EXPECT_GT(part(plan_of(line + "adapter=lora adapter.dora=true"), "activations"),
            1.1 * part(lora, "activations"));
  // A trained head needs as much as in a full run: its gradient is summed over chunks of rows in float32.
  const auto logits = [&](const std::string& more) {
    return part(plan_of(line + "batch_size=64 " + more), "logits chunk");
  };
  EXPECT_EQ(logits("adapter=lora adapter.modules_to_save=[embed_out]"), logits(""));
  EXPECT_NEAR(logits("") - logits("adapter=lora"), 4.0 * 50'304 * 2560, 1);
}

// 32 layers with 12 * 2560^2 elements in their matrices need codes of half a byte, a scale of one byte for
// each 64 elements, and 4 bytes for each 256 scales. The rest has 2 bytes, and one layer is in use.
TEST(Memory, FrozenMatricesInFewBits) {
  const std::string line = "model=pythia28 model.fsdp_policy_mp=bfloat16 adapter=lora ";
  constexpr double kSmall = 32.0 * 12 * 2560 * 2560, kRows = 32.0 * (3 + 1 + 4 + 1) * 2560;
  const Plan plain = plan_of(line), nf4 = plan_of(line + "adapter.base_dtype=nf4"),
             int8 = plan_of(line + "adapter.base_dtype=int8");
  EXPECT_NEAR(part(plain, "parameters") - part(nf4, "parameters"),
              kSmall * (2 - 0.5 - 1.0 / 64 - 4.0 / 64 / 256), 1e5);
  EXPECT_NEAR(part(plain, "parameters") - part(int8, "parameters"), kSmall - 4 * kRows, 1e5);
  EXPECT_NEAR(part(nf4, "layer in use"), 2 * kSmall / 32, 1e5);
  EXPECT_EQ(part(plain, "layer in use"), 0);
  EXPECT_EQ(part(nf4, "optimizer"), part(plain, "optimizer"));
}

// Shards divide the bytes. The two gathered blocks are quantized, except the head's matrix, which has 16
// bits.
TEST(Memory, ShardsOfFrozenMatricesInFewBits) {
  const std::string line =
      "model=pythia28 model.fsdp_policy_mp=bfloat16 adapter=lora trainer=FSDPTrainer fsdp_reshard=pass "
      "batch_size=64 --gpus 4 ";
  const std::string small = line + "adapter.base_dtype=int8 ";
  const Plan plain = plan_of(line), shards = plan_of(small), replicas = plan_of(small + "mesh.replica=4");
  constexpr double kSmall = 32.0 * 12 * 2560 * 2560, kRows = 32.0 * (3 + 1 + 4 + 1) * 2560;
  EXPECT_NEAR(part(plain, "parameters") - part(shards, "parameters"), (kSmall - 4 * kRows) / 4, 1e5);
  EXPECT_NEAR(part(plain, "gathered blocks") - part(shards, "gathered blocks"), (kSmall - 4 * kRows) / 32,
              1e5);
  EXPECT_NEAR(part(shards, "layer in use"), 2 * kSmall / 32, 1e5);
  EXPECT_EQ(part(replicas, "gathered blocks"), 0);
}

// Tensor ranks have parts of nf4 with float32 scales for 64 elements. Parts by columns in int8 have the
// scales of all rows.
TEST(Memory, TensorRanksOfFrozenMatricesInFewBits) {
  const std::string line =
      "model=pythia28 model.fsdp_policy_mp=bfloat16 adapter=lora trainer=TensorParallelTrainer batch_size=64 "
      "--gpus 4 ";
  constexpr double kSmall = 32.0 * 12 * 2560 * 2560 / 4, kSplit = 32.0 * (3 + 4) * 2560 / 4,
                   kWhole = 32.0 * 2 * 2560;
  const Plan plain = plan_of(line), nf4 = plan_of(line + "adapter.base_dtype=nf4"),
             int8 = plan_of(line + "adapter.base_dtype=int8");
  EXPECT_NEAR(part(plain, "parameters") - part(nf4, "parameters"), kSmall * (2 - 0.5 - 4.0 / 64), 2e5);
  EXPECT_NEAR(part(plain, "parameters") - part(int8, "parameters"), kSmall - 4 * (kSplit + kWhole), 2e5);
  EXPECT_NEAR(part(nf4, "layer in use"), 2 * kSmall / 32, 1e5);
}

TEST(Memory, ActivationsOfALayer) {
  const auto bytes = [](const std::string& model) {
    double sum = 0;
    for (const SavedTensor& saved : saved_tensors(inputs_of("model=" + model).shape, 2)) sum += saved.bytes;
    return sum;
  };
  // Llama-7B: 12h + 4h_kv + 6f + 4a + 8 = 12 * 4096 + 4 * 4096 + 6 * 11008 + 4 * 32 + 8.
  EXPECT_EQ(bytes("llama7b"), 131'720);
  // Pythia-2.8B, attention and MLP in parallel: 14h + 4f + 4a + 16 = 14 * 2560 + 4 * 10240 + 4 * 32
  // + 16.
  EXPECT_EQ(bytes("pythia28"), 76'944);
  // GPT-2 large, attention and MLP in sequence: 16h + 4f + 4a + 16 = 16 * 1280 + 4 * 5120 + 4 * 20 + 16.
  EXPECT_EQ(bytes("gpt2-large"), 41'056);
  // GPT-J, one norm for both: 12h + 4f + 4a + 8 = 12 * 4096 + 4 * 16384 + 4 * 16 + 8.
  EXPECT_EQ(bytes("gptj"), 114'760);
  // OLMoE, 8 of 64 experts: 20h + 4 * 8h + 8 * 8f + 4a + 8 + 4 * 64 + 40 * 8, h = 2048, f = 1024, a = 16.
  EXPECT_EQ(bytes("olmoe"), 172'680);
}

// A layer of OLMoE has 419,569,664 parameters. Autograd returns all their gradients at once.
TEST(Memory, GradientsOfALayersExpertsCountWithoutShards) {
  EXPECT_EQ(part(make_plan(inputs_of("model=olmoe")), "gathered blocks"), 4 * 419'569'664.0);
  EXPECT_EQ(part(make_plan(inputs_of("model=pythia28")), "gathered blocks"), 0);
}

TEST(Memory, CheckpointingKeepsOneInputALayer) {
  const std::string line = "model=pythia28 batch_size=8 model.fsdp_policy_mp=bfloat16 ";
  const Inputs in = inputs_of(line + "activation_checkpointing=true");
  const double tokens = make_workload(in, ReferenceMode::live).peak_tokens;
  // 32 layers and the two ends of 2h each, and one layer in full: 34 * 5120 + 76,944 bytes a token.
  EXPECT_NEAR(part(make_plan(in), "activations"), tokens * 251'024, 1);
  EXPECT_NEAR(part(plan_of(line), "activations"), tokens * (32 * 76'944 + 2 * 5120), 1);
}

TEST(Memory, LogitsAreNeverMoreThanAChunk) {
  // 4096 rows of 50,304 in float32 or 8192 in bfloat16 are overwritten with their gradient. The gradient of a
  // 16-bit matrix is summed over chunks in float32.
  expect_bytes(plan_of("model=pythia28 batch_size=4096 model.fsdp_policy_mp=bfloat16"), "logits chunk",
               8192.0 * 50'304 * 2 + 50'304.0 * 2560 * 4);
  expect_bytes(plan_of("model=pythia28 batch_size=4096"), "logits chunk", 4096.0 * 50'304 * 4);
  // Matmuls on a CPU are in bfloat16.
  expect_bytes(plan_of("model=pythia28 batch_size=4096 model.fsdp_policy_mp=bfloat16 --device cpu"),
               "logits chunk", 4096.0 * 50'304 * 6 + 50'304.0 * 2560 * 6);
}

TEST(Memory, AdafactorKeepsRowsAndColumns) {
  const Inputs in = inputs_of("model=pythia28");
  // A layer has three matrices of h x 4h or 3h x h, one of h x h, and 13h of vectors. The two ends have V + h
  // each and, in the head, 2h: 32 * ((3h + h) + (h + h) + 2 * (4h + h) + 13h) + 2 * (V + h) + 2h.
  const double h = 2560, v = 50'304;
  EXPECT_EQ(optimizer_values(config::Optimizer::Adafactor, *in.table), 32 * 29 * h + 2 * (v + h) + 2 * h);
}

TEST(Memory, PeaksOfMeasuredRunsOnACpu) {
  // Pythia-160M, pairs of 600 tokens, RMSprop in float32 over MPI: the peak of a rank's process in GiB.
  const auto gib = [](const std::string& line) {
    Inputs in = inputs_of(
        "model=blank_model model.name_or_path=EleutherAI/pythia-160m loss=dpo loss.beta=0.1 reference=cached "
        "debug=true --device cpu " +
        line);
    in.lengths.prompt = in.lengths.response = {200};
    return make_plan(in).memory.total() / (1 << 30);
  };
  const auto expect_near = [](double planned, double measured) {
    EXPECT_NEAR(planned, measured, 0.1 * measured);
  };
  expect_near(gib("batch_size=2"), 3.060);
  expect_near(gib("batch_size=4"), 4.103);
  expect_near(gib("batch_size=4 trainer=FSDPTrainer fsdp_reshard=pass mesh.shard=2"), 2.750);
  expect_near(gib("batch_size=8 trainer=FSDPTrainer fsdp_reshard=pass mesh.shard=2"), 3.833);
  expect_near(gib("batch_size=2 trainer=TensorParallelTrainer mesh.tensor=2"), 1.789);
  expect_near(
      gib("batch_size=8 trainer=FSDPTrainer fsdp_reshard=pass mesh.shard=2 activation_checkpointing=true "
          "model.fsdp_policy_mp=bfloat16"),
      2.265);
}

TEST(Memory, OfAProcessorHoldsTheCopyOfACheckpoint) {
  // float32 weights and one array of RMSprop.
  const std::string line = "model=blank_model model.name_or_path=EleutherAI/pythia-160m --device cpu";
  const double parameters = static_cast<double>(inputs_of(line).table->count());
  expect_bytes(plan_of(line), "checkpoint copy", 8 * parameters);
  expect_bytes(plan_of(line + " debug=true"), "checkpoint copy", 0);
  expect_bytes(plan_of("model=pythia28 --device h200"), "checkpoint copy", 0);
}

TEST(Memory, PeakOfAMeasuredRun) {
  // Pythia-2.8B, 64 HH pairs at once, AdamW over bfloat16, live reference: 84 GiB were measured on an H200.
  const Plan plan = plan_of(
      "model=pythia28 loss=dpo loss.beta=0.1 batch_size=64 optimizer=AdamW model.fsdp_policy_mp=bfloat16 "
      "--device h200");
  EXPECT_NEAR(plan.memory.total() / (1 << 30), 84, 0.1 * 84);
}

}  // namespace
}  // namespace dpo::plan
