#include "shard/local_model.h"

#include <map>

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "made_model.h"
#include "model/generate.h"
#include "shard/fingerprint.h"

namespace dpo::shard {
namespace {

// One rank of a group without the others: its sums are only its own.
class OneOf : public comm::Group {
 public:
  OneOf(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  comm::Work all_reduce(const at::Tensor&, comm::Reduction) override { return {}; }
  comm::Work all_gather(const at::Tensor&, const at::Tensor&) override { return {}; }
  comm::Work reduce_scatter(const at::Tensor&, const at::Tensor&) override { return {}; }
  comm::Work broadcast(const at::Tensor&, int) override { return {}; }
  void barrier() override {}
  std::shared_ptr<comm::Group> split(int) override { return nullptr; }

 private:
  int rank_, size_;
};

TEST(Spread, KeepsTheOrderAndBalancesBytes) {
  const MadeModel made = make_model("llama");
  for (std::size_t count = 1; count <= 4; ++count) {
    std::vector<at::Device> devices;
    for (std::size_t i = 0; i < count; ++i) devices.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(i));
    const std::vector<at::Device> of_block = spread_over(made.model.table, devices);
    ASSERT_EQ(of_block.size(), made.model.table.blocks.size());
    std::map<int, std::int64_t> held;
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < of_block.size(); ++i) {
      if (i > 0) {
        EXPECT_GE(of_block[i].index(), of_block[i - 1].index());
      }
      held[of_block[i].index()] += made.model.table.blocks[i].count();
      largest = std::max(largest, made.model.table.blocks[i].count());
    }
    for (const auto& [device, parameters] : held)
      EXPECT_LE(parameters, made.model.table.count() / static_cast<std::int64_t>(count) + largest);
  }
}

// Expects that a model spread over these devices gives the same results as on one.
void expect_same_over(std::vector<at::Device> devices, const std::string& family, std::int64_t recomputed) {
  const MadeModel made = make_model(family);
  const data::Forest forest = make_forest();
  at::Tensor expected, found;
  model::ResidentStore plain(made.weights);
  model::Weights plain_sums = model::make_weights(made.model.table, at::kFloat, at::kCPU);
  model::ResidentGradients plain_gradients(plain_sums);
  pass(made.model, plain, plain_gradients, forest, recomputed, expected);

  const LocalModel spread(
      made.model, to_devices(made.model.table, made.weights, spread_over(made.model.table, devices)), {});
  model::Weights sums = zeros_like(made.model.table, spread.weights(), at::kFloat, {});
  model::ResidentGradients gradients(sums);
  pass(made.model, spread.store(), gradients, forest, recomputed, found);
  EXPECT_TRUE(at::allclose(found, expected, 1e-5, 1e-5));
  for (std::size_t b = 0; b < sums.blocks.size(); ++b) {
    const at::Tensor gradient = sums.blocks[b].flat.cpu(), alone = plain_sums.blocks[b].flat;
    const double largest = alone.abs().max().item<double>();  // rounding errors of sums are relative to it
    EXPECT_TRUE(at::allclose(gradient, alone, 1e-4, 1e-5 * std::max(1.0, largest)))
        << family << ", block " << b << ": off by " << (gradient - alone).abs().max().item<double>() << " of "
        << largest;
  }

  const std::vector<data::Token> prompt = {4, 8, 15};
  const model::Prompt asked{prompt, 0};
  model::GenerateOptions options;
  options.sampling.greedy = true;
  options.max_new_tokens = 6;
  EXPECT_EQ(model::generate(made.model, spread.store(), std::span(&asked, 1), options)[0].tokens,
            model::generate(made.model, plain, std::span(&asked, 1), options)[0].tokens);
}

TEST(Spread, ComputesTheSameOnTwoDevices) {
  for (const char* family : {"gpt2", "llama", "mixtral"})
    for (const std::int64_t recomputed : {0, 1, 3})
      expect_same_over({at::kCPU, at::kCPU}, family, recomputed);
}

TEST(Spread, ComputesTheSameOnCpuAndCuda) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  const at::Device gpu(at::kCUDA, 0);
  at::globalContext().setFloat32MatmulPrecision("highest");
  for (const char* family : {"gpt2", "llama", "mixtral"})
    for (const std::int64_t recomputed : {0, 1, 3}) {
      expect_same_over({at::kCPU, gpu}, family, recomputed);
      expect_same_over({gpu, at::kCPU}, family, recomputed);
    }
}

// The gradients of fewer tensors must equal those of the whole model to the bit.
TEST(Trained, GradientsAreThoseOfTheTrainedTensors) {
  for (const char* family : {"gpt2", "llama", "mixtral"})
    for (const std::int64_t recomputed : {0, 1, 3}) {
      MadeModel made = make_model(family);
      model::ResidentStore store(made.weights);
      const auto gradients_of = [&] {
        model::Weights sums = zeros_like(made.model.trained, made.weights, at::kFloat, {});
        model::ResidentGradients gradients(sums);
        at::Tensor log_probs;
        pass(made.model, store, gradients, make_forest(), recomputed, log_probs);
        return sums;
      };
      const model::Weights all = gradients_of();
      for (model::Block& block : made.model.trained.blocks)
        std::erase_if(block.tensors, [&](const model::TensorInfo& tensor) {
          return block.kind != model::BlockKind::layer || !tensor.is_linear;
        });
      const model::Weights some = gradients_of();
      for (std::size_t b = 0; b < some.blocks.size(); ++b)
        for (const model::NamedTensor& named : some.blocks[b].operands)
          EXPECT_TRUE(named.tensor.equal(all.blocks[b](named.name))) << family << ' ' << named.name;
      EXPECT_GE(some.blocks[1].tensors.size(), 4u);
      EXPECT_TRUE(some.blocks.front().tensors.empty() && some.blocks.back().tensors.empty());
    }
}

// If every rank has the whole model, each counts a part. The sum equals that of one rank.
TEST(Fingerprint, OfWholeBlocksIsTheSame) {
  const MadeModel made = make_model("llama");
  const auto counted = [&](Fingerprint fingerprint) {
    for (std::size_t b = 0; b < made.weights.blocks.size(); ++b)
      fingerprint.add_whole(made.model.table.blocks[b], made.weights.blocks[b].flat);
    return fingerprint.text();
  };
  EXPECT_EQ(counted(Fingerprint({})), fingerprint_of(made.model.table, made.weights, {}));
  std::uint64_t sums[2] = {};
  for (int rank = 0; rank < 3; ++rank) {
    Mesh mesh;
    mesh.model = std::make_shared<OneOf>(rank, 3);
    const std::string own = counted(Fingerprint(mesh));
    for (std::size_t i = 0; i < 2; ++i) sums[i] += std::stoull(own.substr(16 * i, 16), nullptr, 16);
  }
  EXPECT_EQ(fmt::format("{:016x}{:016x}", sums[0], sums[1]), counted(Fingerprint({})));
}

TEST(Fingerprint, ChangesWithAnyNumberAndItsPlace) {
  MadeModel made = make_model("gpt2");
  const std::string before = fingerprint_of(made.model.table, made.weights, {});
  EXPECT_EQ(before.size(), 32u);
  EXPECT_EQ(fingerprint_of(made.model.table, made.weights, {}), before);
  at::Tensor weights = made.weights.blocks[1].tensors[2].tensor.view({-1});
  const at::Tensor kept = weights.clone();
  weights[7] = kept[8];
  weights[8] = kept[7];
  EXPECT_NE(fingerprint_of(made.model.table, made.weights, {}), before);
  weights.copy_(kept);
  EXPECT_EQ(fingerprint_of(made.model.table, made.weights, {}), before);
  weights[0] += 1e-6;
  EXPECT_NE(fingerprint_of(made.model.table, made.weights, {}), before);
  weights.copy_(kept);
  made.model.table.blocks[1].tensors[2].scale = 2;  // LoRA with another alpha
  EXPECT_NE(fingerprint_of(made.model.table, made.weights, {}), before);
}

}  // namespace
}  // namespace dpo::shard
