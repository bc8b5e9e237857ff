// Computes time by hand from the cost model: 2 operations per parameter and token forward, twice as many
// backward.
#include "plan/timing.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "test_plans.h"

namespace dpo::plan {
namespace {

// Returns a device with round figures: matmuls reach 100 TFLOP/s in 16 bits and 10 in float32; 1 TB/s memory,
// 100 GB/s links.
Device round_device() {
  Device device;
  device.name = "round";
  device.memory = 1e12;
  device.memory_bandwidth = 1e12;
  device.bf16_flops = 200e12;
  device.fp32_flops = 20e12;
  device.efficiency = 0.35;  // of a step: 0.7 of the rate of matmuls
  device.link = 100e9;
  device.network = 10e9;
  device.watts = 500;
  device.usd_per_hour = 2;
  return device;
}

Plan timed(const std::string& line) {
  Inputs in = inputs_of(line);
  in.lengths = fixed_lengths();
  in.machine.device = round_device();
  return make_plan(in);
}

// Pythia-2.8B's matrices: 32 * 12 * 2560^2 in the layers, 50,304 * 2560 in the head.
constexpr double kBody = 2'516'582'400;
constexpr double kHead = 128'778'240;

// Returns the seconds of a forward pass through the layers without matmuls, on the round device: attention at
// a third of the rate, 110 bytes in 16 bits per token and hidden element, and 10 us for each layer.
double without_matmuls(int layers, int hidden, double attended, double tokens, double rate, double bytes) {
  return layers * (4.0 * hidden * attended / (rate / 3) + 110.0 * bytes / 2 * hidden * tokens / 1e12 + 10e-6);
}

// Returns the seconds of embedding and head without matmuls: 10 us for each, and the reading of the logits.
double of_logits(int vocabulary, double rows, double bytes) {
  return vocabulary * rows * bytes / 1e12 + 2 * 10e-6;
}

TEST(Timing, ComputeOfOneGpu) {
  // 8 pairs: 1600 tokens, 800 of them rows of the head. Causal attention sees 100 * 101 / 2 + 2 * (50 * 100 +
  // 50 * 51 / 2) = 17,600 pairs of positions an example.
  const double body = 2 * kBody * 1600 / 100e12 + without_matmuls(32, 2560, 8 * 17'600.0, 1600, 100e12, 2);
  const double head = 2 * kHead * 800 / 100e12 + of_logits(50'304, 800, 2);
  const std::string line =
      "model=pythia28 loss=dpo loss.beta=0.1 batch_size=8 model.fsdp_policy_mp=bfloat16 ";
  // The host takes 2 ms for a microbatch.
  EXPECT_NEAR(timed(line + "reference=live").timing.microbatch.elapsed, 4 * (body + head) + 2e-3, 1e-6);
  EXPECT_NEAR(timed(line + "reference=cached").timing.microbatch.elapsed, 3 * (body + head) + 2e-3, 1e-6);
  // Only layers are recomputed.
  EXPECT_NEAR(timed(line + "reference=cached activation_checkpointing=true").timing.microbatch.elapsed,
              3 * (body + head) + body + 2e-3, 1e-6);
}

TEST(Timing, Float32RunsAtItsOwnRate) {
  const double products = (2 * kBody * 600 + 2 * kHead * 200) / 10e12;
  EXPECT_NEAR(timed("model=pythia28 batch_size=4").timing.microbatch.elapsed,
              3 * (products + without_matmuls(32, 2560, 4 * (5050 + 6275.0), 600, 10e12, 4) +
                   of_logits(50'304, 200, 4)) +
                  2e-3,
              1e-6);
}

// In OLMoE, a token is multiplied by 8 of 64 experts: 16 * 2048 * (4 * 2048 + 64 + 8 * 3 * 1024) parameters
// of the layers.
TEST(Timing, OnlyActiveExpertsAreComputed) {
  const double layers = 2 * 1'075'838'976.0 * 600 / 10e12, head = 2 * 103'022'592.0 * 200 / 10e12;
  EXPECT_NEAR(timed("model=olmoe batch_size=4").timing.microbatch.elapsed,
              3 * (layers / 0.46 + head + without_matmuls(16, 2048, 4 * (5050 + 6275.0), 600, 10e12, 4) +
                   of_logits(50'304, 200, 4)) +
                  2e-3,
              1e-6);
}

TEST(Timing, OptimizerIsOnePassOverMemory) {
  // AdamW over 16-bit weights with the other bits of float32 moves 28.25 bytes per parameter: 28.25 *
  // 2,775,208,960 / 1e12 s.
  EXPECT_NEAR(timed("model=pythia28 optimizer=AdamW model.fsdp_policy_mp=bfloat16").timing.optimizer,
              0.0783997, 1e-6);
  // Sharded over 4, it is a quarter of 32.25 bytes, because gradients of several ranks are float32.
  EXPECT_NEAR(timed("model=pythia28 optimizer=AdamW model.fsdp_policy_mp=bfloat16 trainer=FSDPTrainer "
                    "batch_size=8 --gpus 4")
                  .timing.optimizer,
              0.0223753, 1e-6);
}

// Frozen weights have no gradients. The backward pass has half the matmuls, and the same operations between
// them.
TEST(Timing, AnAdapterSavesTheGradientsOfTheWeights) {
  const std::string line = "model=pythia28 loss=sft batch_size=64 model.fsdp_policy_mp=bfloat16 ";
  const double full = plan_of(line).timing.microbatch.compute;
  const double lora = plan_of(line + "adapter=lora adapter.r=8").timing.microbatch.compute;
  EXPECT_NEAR(lora / full, 0.82, 0.03);
  EXPECT_LT(plan_of(line + "adapter=lora").timing.optimizer, 0.02 * plan_of(line).timing.optimizer);
  // DoRA also reads the weights twice, forward and in recomputation.
  const double dora = plan_of(line + "adapter=lora adapter.r=8 adapter.dora=true").timing.microbatch.compute;
  EXPECT_GT(dora, lora);
}

// The forward and the backward pass each read the codes of 32 * 12 * 2560^2 elements and write the values in
// 2 bytes.
TEST(Timing, MatricesInFewBitsAreExpandedInEveryPass) {
  const std::string line =
      "model=pythia28 loss=sft batch_size=64 model.fsdp_policy_mp=bfloat16 adapter=lora ";
  const double bandwidth = inputs_of(line).machine.device.memory_bandwidth;
  const auto seconds = [&](const std::string& more) {
    return plan_of(line + more).timing.microbatch.compute;
  };
  constexpr double kSmall = 32.0 * 12 * 2560 * 2560;
  EXPECT_NEAR(seconds("adapter.base_dtype=fp8") - seconds(""), 2 * kSmall * 3 / bandwidth, 1e-6);
  EXPECT_NEAR(seconds("adapter.base_dtype=nf4") - seconds(""),
              2 * kSmall * (2.5 + (1 + 4.0 / 256) / 64) / bandwidth, 1e-6);
}

TEST(Timing, ShardedCommunication) {
  // Per microbatch: gather 2cP forward, 2cP backward, reduce 4cP (float32), c = 3/4, at 100 GB/s.
  const double parameters = 2'775'208'960;
  const Plan sft = timed(
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass batch_size=8 model.fsdp_policy_mp=bfloat16 "
      "--gpus 4");
  EXPECT_NEAR(sft.timing.microbatch.communication, 8 * 0.75 * parameters / 100e9, 1e-9);
  // A live reference gathers its own 2cP.
  const Plan dpo = timed(
      "model=pythia28 loss=dpo loss.beta=0.1 reference=live trainer=FSDPTrainer fsdp_reshard=pass "
      "batch_size=8 "
      "model.fsdp_policy_mp=bfloat16 --gpus 4");
  EXPECT_NEAR(dpo.timing.microbatch.communication, 10 * 0.75 * parameters / 100e9, 1e-9);
  // Across two machines, the network adapters of two GPUs are the bottleneck.
  const Plan nodes = timed(
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass batch_size=8 model.fsdp_policy_mp=bfloat16 "
      "--gpus 2 --nodes 2");
  EXPECT_NEAR(nodes.timing.microbatch.communication, 8 * 0.75 * parameters / (2 * 10e9), 1e-9);
}

// Frozen matrices are gathered in 4 bits, forward and backward. Only gradients of the adapter are reduced.
TEST(Timing, ShardsOfFrozenMatricesInFewBits) {
  const std::string line =
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass batch_size=8 model.fsdp_policy_mp=bfloat16 "
      "adapter=lora --gpus 4 ";
  const Plan plain = timed(line), nf4 = timed(line + "adapter.base_dtype=nf4");
  constexpr double kSmall = 32.0 * 12 * 2560 * 2560;
  EXPECT_NEAR(plain.timing.microbatch.communication - nf4.timing.microbatch.communication,
              2 * 0.75 * kSmall * (1.5 - (1 + 4.0 / 256) / 64) / 100e9, 1e-9);
  EXPECT_NEAR(nf4.timing.threshold.scale_well / plain.timing.threshold.scale_well, 0.327, 0.001);
}

TEST(Timing, TensorParallelCommunication) {
  // 16 T h (t - 1) / t bytes a layer in bfloat16, forward and backward together: T = 8 * 150, h = 2560, 32
  // layers, t = 4.
  const std::string line = "model=pythia28 trainer=TensorParallelTrainer batch_size=8 --gpus 4 ";
  const Plan plan = timed(line + "model.fsdp_policy_mp=bfloat16");
  // The embedding's outputs are summed too, and the gradients of the head's inputs: 4 bytes each, 8 * 50
  // rows.
  const double ends = 4.0 * (1200 + 400) * 2560 * 0.75 / 100e9;
  EXPECT_NEAR(plan.timing.microbatch.communication, 16.0 * 1200 * 2560 * 0.75 * 32 / 100e9 + ends, 1e-9);
  // A recomputed layer sums twice more.
  const Plan again = timed(line + "model.fsdp_policy_mp=bfloat16 activation_checkpointing=true");
  EXPECT_NEAR(again.timing.microbatch.communication, 24.0 * 1200 * 2560 * 0.75 * 32 / 100e9 + ends, 1e-9);
}

TEST(Timing, ShardsOfTensorParallelGroups) {
  // Norms and biases of sums are whole on each rank (32 layers of 6h, and 2h). Of the other parameters, each
  // tensor rank has half. 4 of them gather and scatter 8 bytes each.
  const double whole = 32 * 6 * 2560 + 2 * 2560, parameters = (2'775'208'960 - whole) / 2 + whole;
  const Plan plan = timed(
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass batch_size=32 model.fsdp_policy_mp=bfloat16 "
      "mesh.tensor=2 --gpus "
      "8");
  EXPECT_EQ(plan.examples_per_gpu, 8);
  const double tensor = (16.0 * 32 * 1200 + 4 * (1200 + 400)) * 2560 * 0.5 / 100e9;
  EXPECT_NEAR(plan.timing.microbatch.communication, 8 * 0.75 * parameters / 100e9 + tensor, 1e-6);
}

// Returns the seconds by which an exchange of all gradients of Pythia-2.8B lengthens an update. It overlaps
// with the last backward pass, two thirds of the compute; the embedding's block comes after it.
double not_hidden(double exchange, const Plan& plan) {
  const double backward = plan.timing.microbatch.compute * 2 / 3;
  return std::max(exchange, backward) + 0.8 * std::min(exchange, backward) - backward +
         exchange * kHead / 2'775'208'960;
}

TEST(Timing, ReplicasExchangeTheirSharesOnce) {
  const double parameters = 2'775'208'960;
  const std::string line =
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass model.fsdp_policy_mp=bfloat16 ";
  const Plan plan =
      timed(line + "batch_size=64 gradient_accumulation_steps=2 mesh.replica=2 --gpus 4 --nodes 2");
  // Shards stay within a machine. A quarter of the gradients in float32 crosses the network twice, halved.
  EXPECT_NEAR(plan.timing.microbatch.communication, 8 * 0.75 * parameters / 100e9, 1e-9);
  EXPECT_NEAR(plan.timing.gradient_reduction, not_hidden(2 * 0.5 * 4 * parameters / 4 / 10e9, plan), 1e-5);
  EXPECT_NEAR(plan.timing.update,
              2 * plan.timing.microbatch.elapsed + plan.timing.gradient_reduction + plan.timing.optimizer,
              1e-12);
  EXPECT_EQ(timed(line + "batch_size=64 --gpus 4").timing.gradient_reduction, 0);
}

TEST(Timing, WholeGradientsAreExchangedOnce) {
  const double parameters = 2'775'208'960;
  const Plan plan = timed(
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass batch_size=32 gradient_accumulation_steps=4 "
      "--gpus 4 "
      "model.fsdp_policy_mp=bfloat16 fsdp_accumulate=whole");
  EXPECT_NEAR(plan.timing.microbatch.communication, 4 * 0.75 * parameters / 100e9, 1e-9);
  EXPECT_NEAR(plan.timing.gradient_reduction, not_hidden(4 * 0.75 * parameters / 100e9, plan), 1e-9);
}

TEST(Timing, RanksOfAProcessorShareIt) {
  // Twice the ranks have the same examples each and half the rate each. The step takes twice as long, apart
  // from the exchange and the minimum cost of a block.
  const auto step = [](int ranks) {
    Inputs in = inputs_of("model=gpt2-large trainer=FSDPTrainer optimizer=SGD --device cpu mesh.shard=" +
                          std::to_string(ranks) + " batch_size=" + std::to_string(2 * ranks));
    in.lengths = fixed_lengths();  // so that no rank has more work than another
    in.machine.device.link = 1e15;
    in.machine.device.fp32_flops = 0.26e12;  // two cores, whatever this machine has
    in.machine.device.memory_bandwidth = 30e9;
    return make_plan(in).timing.microbatch.elapsed;
  };
  EXPECT_NEAR(step(4) / step(2), 2, 3e-3);
}

TEST(Timing, TokensThatHideCommunication) {
  // The cost model's own figures for 600 TFLOP/s and 8 GPUs: NVLink, 400 Gb/s network, PCIe.
  Inputs in = inputs_of(
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass batch_size=32 model.fsdp_policy_mp=bfloat16 "
      "--gpus 8");
  in.machine.device = round_device();
  in.machine.device.bf16_flops = 600e12 / 0.35;
  const auto threshold = [&in](double link) {
    in.machine.device.link = link;
    return make_plan(in).timing.threshold;
  };
  EXPECT_NEAR(threshold(360e9).scale_well, 2187.5, 0.1);
  EXPECT_NEAR(threshold(360e9).beat_one_gpu, 273.4, 0.1);
  EXPECT_NEAR(threshold(50e9).scale_well, 15'750, 1);
  EXPECT_NEAR(threshold(50e9).beat_one_gpu, 1969, 1);
  EXPECT_NEAR(threshold(25e9).scale_well, 31'500, 1);
  EXPECT_NEAR(threshold(25e9).beat_one_gpu, 3937.5, 1);
}

// Returns the tokens per second of a sharded run relative to those of as many independent GPUs.
double efficiency(int gpus, int tokens_per_gpu) {
  const int examples = tokens_per_gpu / 150;
  const std::string line =
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass optimizer=SGD model.fsdp_policy_mp=bfloat16 ";
  const auto speed = [&](int n) {
    Inputs in =
        inputs_of(line + "batch_size=" + std::to_string(examples * n) + " --gpus " + std::to_string(n));
    in.lengths = fixed_lengths();
    in.machine.device = load_device("h200");
    return make_plan(in).timing.tokens_per_second;
  };
  return speed(gpus) / (gpus * speed(1));
}

TEST(Timing, ScalesAsMeasuredOnH200) {
  EXPECT_NEAR(efficiency(2, 8192), 0.89, 0.03);
  EXPECT_NEAR(efficiency(4, 16384), 0.93, 0.03);
}

TEST(Timing, SmallMicrobatchesOverSlowLinksDoNotPay) {
  // A 1B model on 4 GPUs over PCIe with two examples each must be far slower than four GPUs side by side.
  const auto speed = [](const std::string& trainer, int gpus) {
    return plan_of("model.name_or_path=EleutherAI/pythia-1b trainer=" + trainer +
                   " batch_size=" + std::to_string(2 * gpus) +
                   " model.fsdp_policy_mp=bfloat16 --device l40s --gpus " + std::to_string(gpus))
        .timing.tokens_per_second;
  };
  EXPECT_LT(speed("FSDPTrainer", 4), 0.3 * 4 * speed("BasicTrainer", 1));
}

TEST(Timing, WholeRun) {
  // 100,000 examples in batches of 64: 1562 full ones; evaluations at 19,968, ..., 99,840, before the
  // first and at the end.
  const std::string line = "model=pythia28 batch_size=64 sample_during_eval=false eval_every=19968 ";
  const Timing t = timed(line).timing;
  EXPECT_EQ(t.updates, 1562);
  EXPECT_EQ(t.examples, 99'968);
  EXPECT_EQ(t.evaluations, 7);
  EXPECT_EQ(timed(line + "do_first_eval=false").timing.evaluations, 6);
  EXPECT_EQ(timed(line + "n_examples=19968").timing.evaluations, 2);  // before the first and at the end
  EXPECT_EQ(timed(line + "n_examples=20032").timing.evaluations, 3);
  EXPECT_EQ(timed(line + "eval_every=null").timing.evaluations, 0);
  EXPECT_EQ(timed(line + "n_epochs=3").timing.updates, 3 * 1562);
  EXPECT_EQ(timed(line + "n_examples=1000").timing.updates, 16);  // checked after full batches
  EXPECT_EQ(timed(line + "n_epochs=null n_examples=640").timing.updates, 10);
  EXPECT_NEAR(t.training_hours, 1562 * t.update / 3600, 1e-12);
  EXPECT_NEAR(t.energy_kwh, t.total_hours() * 0.5, 1e-12);
  EXPECT_NEAR(t.cost_usd, t.total_hours() * 2, 1e-12);
}

TEST(Timing, AccumulationRepeatsTheMicrobatch) {
  const Timing one = timed("model=pythia28 batch_size=64").timing;
  const Timing eight = timed("model=pythia28 batch_size=64 gradient_accumulation_steps=8").timing;
  EXPECT_NEAR(eight.update - eight.optimizer, 8 * eight.microbatch.elapsed, 1e-12);
  EXPECT_GT(eight.update, one.update);
  EXPECT_LT(eight.update, 1.05 * one.update);  // compute is the same, only launches repeat
}

TEST(Timing, ACachedReferenceIsScoredOnce) {
  const std::string line =
      "model=pythia28 loss=dpo loss.beta=0.1 batch_size=64 n_epochs=3 sample_during_eval=false ";
  const Timing cached = timed(line + "reference=cached").timing;
  const Timing live = timed(line + "reference=live").timing;
  EXPECT_GT(cached.reference_hours, 0);
  EXPECT_NEAR(live.training_hours - cached.training_hours, 3 * cached.reference_hours,
              0.02 * cached.reference_hours);
}

TEST(Timing, ASmallModelOnAProcessorIsMoreThanItsProducts) {
  // Seconds that one thread of a Neoverse V1 took in float32 for the demonstration's shape (two layers of
  // 128) on 967 tokens of 32 short examples, and for Pythia-70M's on 1426 tokens of 8 with HH's lengths.
  const auto planned = [](const std::string& model, const Lengths& lengths, int batch) {
    Inputs in = inputs_of(
        "model=blank_model optimizer=SGD --device cpu model.name_or_path=EleutherAI/pythia-70m "
        "batch_size=" +
        std::to_string(batch));
    if (model == "demo") {
      in.shape.hidden = 128;
      in.shape.head_dim = 32;
      in.shape.heads = in.shape.kv_heads = 4;
      in.shape.ffn = 512;
      in.shape.layers = 2;
      in.shape.vocabulary = 400;
      in.table = std::make_shared<const model::TensorTable>(model::tensor_table(in.shape));
    }
    in.lengths = lengths;
    in.machine.device.fp32_flops = 52e9;
    in.machine.device.efficiency = 1;
    in.machine.device.memory_bandwidth = 15e9;
    return make_plan(in).timing.update;
  };
  Lengths small = fixed_lengths();
  small.prompt = {17};
  small.response = {13};
  EXPECT_NEAR(planned("demo", small, 32), 0.1441, 0.15 * 0.1441);
  EXPECT_NEAR(planned("demo", small, 1), 0.0085, 0.2 * 0.0085);
  EXPECT_NEAR(planned("pythia-70m", load_lengths("hh"), 8), 5.0631 / 1426 * 8 * 166, 0.2 * 5.0631);
}

TEST(Timing, StepOfAMeasuredProcessor) {
  // 64 pairs of Pythia-70M's shape with HH's lengths took 7.8 s on two cores with AMX, and 6.1 s later.
  Inputs in = inputs_of(
      "model=blank_model model.name_or_path=EleutherAI/pythia-70m loss=dpo loss.beta=0.1 batch_size=64 "
      "model.fsdp_policy_mp=bfloat16 optimizer=AdamW reference=live --device cpu");
  in.machine.device.bf16_flops = 2 * 1.0e12;
  in.machine.device.fp32_flops = 2 * 0.13e12;
  in.machine.device.memory_bandwidth = 2 * 15e9;
  EXPECT_NEAR(make_plan(in).timing.update, 7.0, 0.15 * 7.0);
}

TEST(Timing, LossesThatScoreMoreTakeMore) {
  // Policy and reference forward, policy backward: 1 + 1 + 2. KTO also scores mismatched responses with both.
  const std::string line =
      "model=pythia28 loss.beta=0.1 batch_size=64 reference=live sample_during_eval=false loss=";
  const Timing dpo = timed(line + "dpo").timing, kto = timed(line + "kto").timing,
               aot = timed(line + "aot").timing;
  EXPECT_NEAR(kto.microbatch.compute / dpo.microbatch.compute, 6.0 / 4, 1e-6);
  EXPECT_NEAR(kto.evaluation_hours / dpo.evaluation_hours, 2, 1e-6);
  EXPECT_NEAR(aot.microbatch.compute / dpo.microbatch.compute, 6.0 / 4, 1e-6);
  EXPECT_NEAR(aot.evaluation_hours / dpo.evaluation_hours, 1, 1e-6);
}

TEST(Timing, ThePolicySamplesAfterTheFirstUpdateAndTheReferenceOnce) {
  const auto samplings = [](const std::string& more) {
    return timed("model=pythia28 loss=dpo loss.beta=0.1 batch_size=64 eval_every=6400 reference=live " + more)
        .timing.samplings;
  };
  // There are 17 evaluations. The samples of the first one come after the first update.
  EXPECT_EQ(samplings("sample_during_eval=true"), 17 + 1);
  EXPECT_EQ(samplings("sample_during_eval=auto"), 17 + 1);
  EXPECT_EQ(samplings("sample_during_eval=true do_first_eval=false"), 16 + 1);
  EXPECT_EQ(samplings("sample_during_eval=true n_examples=64"), 1 + 1);  // the first update is the end
  EXPECT_EQ(timed("model=pythia28 loss=sft batch_size=64 eval_every=6400").timing.samplings, 17);
  EXPECT_EQ(samplings("sample_during_eval=false"), 0);
  EXPECT_EQ(samplings("sample_during_eval=true eval_every=null"), 0);
}

TEST(Timing, SamplesThatNobodyAskedForTakeASmallShare) {
  const std::string line = "model=pythia28 loss=dpo loss.beta=0.1 batch_size=64 reference=live ";
  for (const char* more : {"eval_every=6400", "eval_every=64", "eval_every=6400 --device cpu"}) {
    const Timing t = plan_of(line + more).timing;
    EXPECT_LE(t.sampling_hours, 0.05 * t.total_hours()) << more;
    EXPECT_LE(t.sampled.texts, 4) << more;
  }
  EXPECT_EQ(timed(line + "eval_every=6400").timing.sampled.texts, 4);
  EXPECT_LE(plan_of(line + "eval_every=6400 --device cpu").timing.sampled.seconds, 15);
  const Timing asked = timed(line + "eval_every=6400 sample_during_eval=true").timing;
  EXPECT_EQ(asked.sampled.texts, 16);
  EXPECT_FALSE(asked.sampled.seconds);
  EXPECT_EQ(timed(line + "eval_every=6400 sample_during_eval=true n_eval_examples=3").timing.sampled.texts,
            3);
  // One example ends the run before a text is written.
  EXPECT_EQ(timed(line + "batch_size=1 n_examples=1 n_eval_examples=1 debug=true").timing.sampled.texts, 0);
}

TEST(Timing, CheckpointsTakeTime) {
  const std::string line =
      "model=pythia28 batch_size=64 sample_during_eval=false eval_every=null save_every=";
  const Timing rare = timed(line + "64000").timing, often = timed(line + "64").timing;
  EXPECT_EQ(rare.checkpoints, 2);
  EXPECT_EQ(often.checkpoints, 1562);
  const double bytes = 8 * 2'775'208'960.0;
  // There are two copies, and the end waits until the last one is written.
  EXPECT_NEAR(rare.checkpoint_hours * 3600, 2 * bytes / 3e9 + bytes / 0.5e9, 1e-6);
  // If each checkpoint is due before the last one is written, the run takes as long as writing them all.
  EXPECT_GT(often.update, 0);
  EXPECT_NEAR(often.total_hours() * 3600, 1562 * (bytes / 3e9 + bytes / 0.5e9), 0.01 * 1562 * bytes / 0.5e9);
  EXPECT_EQ(timed(line + "64 debug=true").timing.checkpoint_hours, 0);
}

}  // namespace
}  // namespace dpo::plan
