#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "model/quantized_block.h"
#include "plan/memory.h"
#include "train/train_state.h"
#include "unit/plan/test_plans.h"

namespace dpo {
namespace {

// On every mesh, the bytes of a rank's quantized frozen layer must equal those of its plan.
TEST(SmallBaseMemory, IsPlanned) {
  const std::string line =
      "model=blank_model adapter=lora trainer=FSDPTrainer batch_size=64 model.fsdp_policy_mp=bfloat16 --gpus "
      "4 ";
  for (const std::string model : {"gpt2", "EleutherAI/pythia-70m"})
    for (const std::string dtype : {"nf4", "int8"})
      for (const std::string mesh :
           {"mesh.shard=4", "mesh.shard=2 mesh.tensor=2", "mesh.replica=2 mesh.tensor=2", "mesh.replica=4"}) {
        const plan::Inputs in = plan::inputs_of(line + "model.name_or_path=" + model +
                                                " adapter.base_dtype=" + dtype + " " + mesh);
        const plan::Workload w = plan::make_workload(in, plan::ReferenceMode::none);
        const model::Block& layer = in.table->blocks[1];
        const model::BlockWeights whole{
            at::empty({model::block_size(layer, {}).size}, at::kBFloat16).normal_(), {}};
        const model::BlockWeights held =
            model::quantize(whole, layer, *train::base_dtype(in.run), {0, w.mesh.tensor, 0, w.mesh.shard});
        ASSERT_TRUE(held.quantized);
        const double planned = plan::block_bytes(w, layer) / plan::to_double(w.mesh.shard);
        EXPECT_NEAR(plan::to_double(held.flat.numel()), planned, 1e-3 * planned)
            << model << " " << dtype << " " << mesh;
      }
}

}  // namespace
}  // namespace dpo
