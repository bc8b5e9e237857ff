#include "model/spec/table.h"

#include <set>

#include <gtest/gtest.h>

#include "base/files.h"

namespace dpo::model {
namespace {

ModelShape shipped(const std::string& name) {
  const std::string path = std::string(DPO_SOURCE_DIR) + "/configs/architecture/" + name + ".json";
  return parse_shape(read_text_file(path, "test"), name);
}

TEST(TensorTable, CountsTheParametersThatTheModelsArePublishedWith) {
  struct Case {
    const char* name;
    std::int64_t parameters;
  };
  const Case cases[] = {
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"EleutherAI--gpt-j-6b", 6'050'882'784},
      {"EleutherAI--pythia-70m", 70'426'624},
      {"EleutherAI--pythia-160m", 162'322'944},
      {"EleutherAI--pythia-410m", 405'334'016},
      {"EleutherAI--pythia-1b", 1'011'781'632},
      {"EleutherAI--pythia-1.4b", 1'414'647'808},
      {"EleutherAI--pythia-2.8b", 2'775'208'960},
      {"EleutherAI--pythia-6.9b", 6'857'302'016},
      {"EleutherAI--pythia-12b", 11'846'072'320},
      {"huggyllama--llama-7b", 6'738'415'616},
      {"meta-llama--Llama-2-7b-hf", 6'738'415'616},
      {"meta-llama--Llama-2-13b-hf", 13'015'864'320},
      {"meta-llama--Llama-3.2-1B", 1'235'814'400},
      {"meta-llama--Llama-3.2-3B", 3'212'749'824},
      {"meta-llama--Llama-3.1-8B", 8'030'261'248},
      {"mistralai--Mistral-7B-v0.1", 7'241'732'096},
      {"Qwen--Qwen2.5-0.5B", 494'032'768},
      {"Qwen--Qwen2.5-1.5B", 1'543'714'304},
      {"Qwen--Qwen2.5-7B", 7'615'616'512},
      {"Qwen--Qwen3-0.6B", 596'049'920},
      {"Qwen--Qwen3-1.7B", 1'720'574'976},
      {"Qwen--Qwen3-4B", 4'022'468'096},
      {"Qwen--Qwen3-8B", 8'190'735'360},
      {"google--gemma-2-2b-it", 2'614'341'888},
      {"google--gemma-2-9b-it", 9'241'705'984},
      {"google--gemma-2-27b-it", 27'227'128'320},
      {"google--gemma-3-270m-it", 268'098'176},
      {"google--gemma-3-1b-it", 999'885'952},
      {"google--gemma-3-4b-it", 3'880'263'168},  // the text part, here and below
      {"google--gemma-3-12b-it", 11'766'034'176},
      {"google--gemma-3-27b-it", 27'009'346'304},
      {"microsoft--Phi-3-mini-4k-instruct", 3'821'079'552},
      {"microsoft--phi-4", 14'659'507'200},
      {"allenai--OLMo-2-0425-1B", 1'484'916'736},
      {"allenai--OLMo-2-1124-7B", 7'298'617'344},
      {"allenai--OLMo-2-1124-13B", 13'716'198'400},
      {"allenai--Olmo-3-1025-7B", 7'298'011'136},
      {"HuggingFaceTB--SmolLM3-3B", 3'075'098'624},
      {"ibm-granite--granite-3.3-2b-instruct", 2'533'539'840},
      {"ibm-granite--granite-3.3-8b-instruct", 8'170'864'640},
      {"CohereLabs--aya-23-8B", 8'028'033'024},
      {"CohereLabs--c4ai-command-r-v01", 34'980'831'232},
      {"mistralai--Mixtral-8x7B-v0.1", 46'702'792'704},
      {"Qwen--Qwen3-30B-A3B", 30'532'122'624},
      {"allenai--OLMoE-1B-7B-0924", 6'919'161'856},
  };
  for (const Case& c : cases) EXPECT_EQ(tensor_table(shipped(c.name)).count(), c.parameters) << c.name;
}

TEST(TensorTable, BlocksKnowTheirKindAndLayer) {
  const TensorTable table = tensor_table(shipped("gpt2"));
  EXPECT_EQ(table.first(BlockKind::embedding), 0U);
  EXPECT_EQ(table.first(BlockKind::layer), 1U);
  EXPECT_EQ(table.first(BlockKind::head), 13U);
  for (std::size_t layer = 0; layer < 12; ++layer) EXPECT_EQ(table.blocks[1 + layer].layer, layer);
  EXPECT_TRUE(table.is_tied());
  EXPECT_FALSE(tensor_table(shipped("EleutherAI--pythia-70m")).is_tied());
}

TEST(TensorTable, NamesEveryTensorOnce) {
  for (const char* name : {"gpt2", "EleutherAI--gpt-j-6b", "EleutherAI--pythia-70m", "Qwen--Qwen3-0.6B",
                           "allenai--OLMoE-1B-7B-0924"}) {
    std::set<std::string> names;
    std::size_t tensors = 0;
    for (const Block& block : tensor_table(shipped(name)).blocks) {
      for (const TensorInfo& tensor : block.tensors) names.insert(tensor.name);
      tensors += block.tensors.size();
    }
    EXPECT_EQ(names.size(), tensors) << name;
  }
  EXPECT_EQ(tensor_table(shipped("gpt2")).blocks[12].tensors[2].name, "transformer.h.11.attn.c_attn.weight");
}

TEST(TensorTable, CountsMatricesThatTokensAreMultipliedBy) {
  const ModelShape shape = shipped("EleutherAI--pythia-2.8b");
  const TensorTable table = tensor_table(shape);
  // Per layer: 3h*h + h*h + 4h*h + 4h*h = 12 h^2.
  EXPECT_EQ(table.blocks[1].matmul_count(), 12 * shape.hidden * shape.hidden);
  EXPECT_EQ(table.head_matmul_count, 50304 * 2560);
}

// The published numbers of active parameters are 12.9, 3.3 and 1.3 billion.
TEST(TensorTable, CountsTheExpertsThatATokenIsSentTo) {
  EXPECT_EQ(tensor_table(shipped("mistralai--Mixtral-8x7B-v0.1")).active_count(), 12'879'925'248);
  EXPECT_EQ(tensor_table(shipped("Qwen--Qwen3-30B-A3B")).active_count(), 3'353'032'704);
  EXPECT_EQ(tensor_table(shipped("gpt2")).active_count(), 124'439'808);
  const TensorTable table = tensor_table(shipped("allenai--OLMoE-1B-7B-0924"));
  EXPECT_EQ(table.active_count(), 1'282'017'280);
  // Per layer: attention 4 h^2, a router of 64 rows, and 8 experts of three matrices of 1024 rows.
  EXPECT_EQ(table.blocks[1].matmul_count(), 2048 * (4 * 2048 + 64 + 8 * 3 * 1024));
}

TEST(TensorTable, NamesExpertsAsFilesDo) {
  const auto layer = [](const char* name) { return tensor_table(shipped(name)).blocks[2].tensors; };
  const auto find = [](const std::vector<TensorInfo>& tensors, const std::string& name) {
    for (const TensorInfo& tensor : tensors)
      if (tensor.name == "model.layers.1." + name) return tensor;
    return TensorInfo{};
  };
  const auto mixtral = layer("mistralai--Mixtral-8x7B-v0.1"), qwen = layer("Qwen--Qwen3-30B-A3B");
  EXPECT_EQ(find(mixtral, "block_sparse_moe.gate.weight").shape, (std::vector<std::int64_t>{8, 4096}));
  EXPECT_EQ(find(mixtral, "block_sparse_moe.experts.7.w1.weight").stack, "experts.gate_proj");
  EXPECT_EQ(find(mixtral, "block_sparse_moe.experts.7.w3.weight").stack, "experts.up_proj");
  EXPECT_EQ(find(mixtral, "block_sparse_moe.experts.0.w2.weight").stack, "experts.down_proj");
  EXPECT_EQ(find(qwen, "mlp.experts.127.up_proj.weight").shape, (std::vector<std::int64_t>{768, 2048}));
  EXPECT_EQ(find(qwen, "mlp.experts.127.down_proj.weight").split, 1);
}

TEST(TensorTable, TensorRanksHoldTheWholeAndCopiesOfWhatIsNotSplit) {
  for (const char* name : {"gpt2-xl", "EleutherAI--gpt-j-6b", "EleutherAI--pythia-2.8b",
                           "mistralai--Mistral-7B-v0.1", "allenai--OLMoE-1B-7B-0924"}) {
    for (const Block& block : tensor_table(shipped(name)).blocks) {
      std::int64_t whole = 0;
      for (const TensorInfo& tensor : block.tensors) whole += tensor.split ? 0 : tensor.count();
      EXPECT_EQ(block.count_on_rank(1), block.count());
      EXPECT_GE(2 * block.count_on_rank(2), block.count() + whole) << name;
      EXPECT_LE(2 * block.count_on_rank(2), block.count() + whole + 2 * std::ssize(block.tensors)) << name;
    }
  }
}

}  // namespace
}  // namespace dpo::model
