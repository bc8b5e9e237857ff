#include "shard/offloaded_store.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "made_model.h"
#include "shard/local_model.h"

namespace dpo::shard {
namespace {

at::Tensor scores(const MadeModel& made, model::Store& store) {
  const model::Batch batch = model::make_batch(make_forest(), made.model.config.shape, store.device(0));
  return model::forward(made.model, store, batch, {}).log_probs.cpu();
}

// Expects the same bits as with the weights on the device, pass after pass.
void expect_same_on(at::Device device) {
  for (const char* family : {"gpt2", "llama", "mixtral"}) {
    MadeModel made = make_model(family);
    made.weights =
        to_devices(made.model.table, made.weights, spread_over(made.model.table, std::vector{device}));
    const LocalModel resident(made.model, made.weights, {});
    const LocalModel offloaded = resident.offloaded({});
    EXPECT_TRUE(offloaded.weights().device().is_cpu());
    EXPECT_EQ(offloaded.store().device(0), device);
    const at::Tensor expected = scores(made, resident.store());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(scores(made, offloaded.store()), expected)) << family;
    EXPECT_EQ(dynamic_cast<const OffloadedStore&>(offloaded.store()).most_fetched(), 2u);
  }
}

TEST(OffloadedStore, ComputesTheSame) { expect_same_on(at::kCPU); }

TEST(OffloadedStore, ComputesTheSameOnAGpu) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  expect_same_on({at::kCUDA, 0});
}

}  // namespace
}  // namespace dpo::shard
