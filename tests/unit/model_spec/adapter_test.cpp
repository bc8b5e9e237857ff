#include "model/spec/adapter.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/spec/layout.h"

namespace dpo::model {
namespace {

ModelShape shape(Family family, bool tied = false) {
  ModelShape s;
  s.family = family;
  s.layers = 2;
  s.hidden = 24;
  s.ffn = 40;
  s.heads = s.kv_heads = 4;
  s.head_dim = 6;
  s.vocabulary = 13;
  s.context = 9;
  s.tied_embeddings = tied;
  if (info_of(family).layers == LayerKind::mixture) {
    s.experts = 4;
    s.experts_per_token = 2;
  }
  return s;
}

TensorTable table(Family family, bool tied = false) { return tensor_table(shape(family, tied)); }

std::vector<std::string> names_in(const Block& block) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : block.tensors) names.push_back(tensor.name.substr(block.prefix.size()));
  return names;
}

const TensorInfo& tensor_of(const TensorTable& table, const std::string& name) {
  for (const Block& block : table.blocks)
    for (const TensorInfo& tensor : block.tensors)
      if (tensor.name == name) return tensor;
  throw std::logic_error("no tensor " + name);
}

std::string problem_of(const TensorTable& model, const AdapterSettings& settings) {
  try {
    adapter_table(model, settings);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(AdapterTable, HasTwoMatricesForEachTarget) {
  const TensorTable adapter =
      adapter_table(table(Family::llama), {.r = 4, .targets = {"q_proj", "down_proj"}});
  ASSERT_EQ(adapter.blocks.size(), 4U);
  EXPECT_TRUE(adapter.blocks.front().tensors.empty());
  EXPECT_TRUE(adapter.blocks.back().tensors.empty());
  EXPECT_EQ(adapter.blocks[2].layer, 1U);
  EXPECT_EQ(names_in(adapter.blocks[1]),
            (std::vector<std::string>{"self_attn.q_proj.lora_A.weight", "self_attn.q_proj.lora_B.weight",
                                      "mlp.down_proj.lora_A.weight", "mlp.down_proj.lora_B.weight"}));
  const TensorInfo& a = tensor_of(adapter, "model.layers.1.mlp.down_proj.lora_A.weight");
  const TensorInfo& b = tensor_of(adapter, "model.layers.1.mlp.down_proj.lora_B.weight");
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{4, 40}));
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{24, 4}));
  EXPECT_EQ(a.init, Init::kaiming_uniform);
  EXPECT_EQ(b.init, Init::zeros);
  EXPECT_EQ(b.scale, 8);  // 32 / 4
}

TEST(AdapterTable, AllLinearIsEveryMatrixOfTheLayers) {
  for (const Family family : all_families())
    for (const bool tied : {true, false}) {
      const TensorTable model = table(family, tied), adapter = adapter_table(model, {});
      std::size_t matrices = 0, tensors = 0;
      for (const TensorInfo& tensor : model.blocks[1].tensors)  // routers are not split
        matrices += tensor.is_linear && tensor.split && (tensor.stack.empty() || tensor.joined) ? 1 : 0;
      for (const Block& block : adapter.blocks) tensors += block.tensors.size();
      EXPECT_EQ(tensors, 2 * 2 * matrices) << info_of(family).name;
    }
}

TEST(AdapterTable, SplitsTheSideThatTheMatrixSplits) {
  const TensorTable llama = adapter_table(table(Family::llama), {});
  EXPECT_EQ(tensor_of(llama, "model.layers.0.self_attn.q_proj.lora_A.weight").split, std::nullopt);
  EXPECT_EQ(tensor_of(llama, "model.layers.0.self_attn.q_proj.lora_B.weight").split, 0);
  EXPECT_EQ(tensor_of(llama, "model.layers.0.self_attn.o_proj.lora_A.weight").split, 1);
  EXPECT_EQ(tensor_of(llama, "model.layers.0.self_attn.o_proj.lora_B.weight").split, std::nullopt);
  // GPT-2 stores its matrices as [in, out]. A and B keep the usual layout.
  const TensorTable gpt2 = adapter_table(table(Family::gpt2), {.dora = true});
  const TensorInfo& b = tensor_of(gpt2, "transformer.h.0.attn.c_attn.lora_B.weight");
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{72, 16}));
  EXPECT_EQ(b.split, 0);
  EXPECT_EQ(b.sections, (std::vector<std::int64_t>{24, 24, 24}));
  EXPECT_EQ(tensor_of(gpt2, "transformer.h.0.attn.c_attn.lora_magnitude_vector").sections, b.sections);
  EXPECT_EQ(tensor_of(gpt2, "transformer.h.0.mlp.c_proj.lora_A.weight").split, 1);
}

TEST(AdapterTable, RanksHoldTheRowsOfTheirOutputs) {
  const TensorTable model = table(Family::phi3), adapter = adapter_table(model, {.r = 3});
  const Layout layout{.tensor_rank = 1, .tensor_ranks = 2, .shard_rank = 0, .shard_ranks = 1};
  const LocalBlock of_model = local_block(model.blocks[1], layout);
  const LocalBlock of_adapter = local_block(adapter.blocks[1], layout);
  for (std::size_t i = 0; i < model.blocks[1].tensors.size(); ++i)
    for (std::size_t j = 0; j < adapter.blocks[1].tensors.size(); ++j)
      if (model.blocks[1].tensors[i].name.ends_with("qkv_proj.weight") &&
          adapter.blocks[1].tensors[j].name.ends_with("qkv_proj.lora_B.weight")) {
        ASSERT_EQ(of_adapter.tensors[j].shape[0], of_model.tensors[i].shape[0]);
        for (std::size_t k = 0; k < of_model.tensors[i].ranges.size(); ++k)
          EXPECT_EQ(of_adapter.tensors[j].ranges[k].from / 3, of_model.tensors[i].ranges[k].from / 24);
      }
}

TEST(AdapterTable, MatchesNamesAndExpressionsAsPeftDoes) {
  const TensorTable model = table(Family::llama);
  const auto count = [&](std::vector<std::string> targets) {
    return adapter_table(model, {.targets = std::move(targets)}).blocks[2].tensors.size() / 2;
  };
  EXPECT_EQ(count({"self_attn.q_proj"}), 1U);
  EXPECT_EQ(count({"model.layers.1.self_attn.q_proj"}), 1U);
  EXPECT_EQ(count({".*\\.(q|v)_proj"}), 2U);
  EXPECT_EQ(count({".*\\.(q|v)_proj", "v_proj", "up_proj"}), 3U);
  EXPECT_EQ(adapter_table(model, {.targets = {"model.layers.1.self_attn.q_proj"}}).blocks[1].tensors.size(),
            0U);
  EXPECT_NE(problem_of(model, {.targets = {"q_porj"}}).find("did you mean 'q_proj'?"), std::string::npos);
  EXPECT_NE(problem_of(model, {.targets = {"proj"}}).find("no matrix of the model matches 'proj'"),
            std::string::npos);
  EXPECT_NE(problem_of(model, {.targets = {"(q_proj"}}).find("not a valid regular expression"),
            std::string::npos);
  EXPECT_NE(problem_of(model, {.targets = {"lm_head"}}).find("adapter.modules_to_save=[lm_head]"),
            std::string::npos);
  EXPECT_TRUE(problem_of(table(Family::llama, true), {.targets = {"lm_head"}}).ends_with("cannot have LoRA"));
}

TEST(AdapterTable, OfAMixtureHasNoExperts) {
  const TensorTable model = table(Family::qwen3_moe);
  EXPECT_EQ(peft_targets(model, {}), (std::vector<std::string>{"k_proj", "o_proj", "q_proj", "v_proj"}));
  for (const char* name : {"gate_proj", "gate", "mlp.experts.1.up_proj"}) {
    EXPECT_NE(
        problem_of(model, {.targets = {name}})
            .find("is an expert or a router, which cannot have LoRA, expected all-linear or k_proj, o_proj"),
        std::string::npos)
        << name;
    EXPECT_NE(problem_of(model, {.modules_to_save = {name}}).find("is an expert or a router"),
              std::string::npos);
  }
}

TEST(AdapterTable, HasOtherRanksAndScalesByPattern) {
  const TensorTable adapter = adapter_table(table(Family::llama), {.r = 4,
                                                                   .alpha = 8,
                                                                   .rslora = true,
                                                                   .rank_pattern = {{"layers.1.*q_proj", 9}},
                                                                   .alpha_pattern = {{"v_proj", 2}}});
  EXPECT_EQ(tensor_of(adapter, "model.layers.0.self_attn.q_proj.lora_A.weight").shape[0], 4);
  EXPECT_EQ(tensor_of(adapter, "model.layers.1.self_attn.q_proj.lora_A.weight").shape[0], 9);
  EXPECT_DOUBLE_EQ(tensor_of(adapter, "model.layers.1.self_attn.q_proj.lora_B.weight").scale, 8.0 / 3);
  EXPECT_DOUBLE_EQ(tensor_of(adapter, "model.layers.0.self_attn.v_proj.lora_B.weight").scale, 1);
  EXPECT_NE(problem_of(table(Family::llama), {.rank_pattern = {{"q_prj", 9}}})
                .find("adapter.rank_pattern: no module with LoRA matches 'q_prj'"),
            std::string::npos);
  EXPECT_NE(problem_of(table(Family::llama), {.targets = {"v_proj"}, .alpha_pattern = {{"q_proj", 9}}})
                .find("adapter.alpha_pattern: no module with LoRA matches 'q_proj'"),
            std::string::npos);
  EXPECT_NE(problem_of(table(Family::llama), {.rank_pattern = {{"q_proj", 9}, {"self_attn.q_proj", 8}}})
                .find("adapter.rank_pattern: 'q_proj' and 'self_attn.q_proj' both match "
                      "model.layers.0.self_attn.q_proj, with different values"),
            std::string::npos);
  EXPECT_EQ(problem_of(table(Family::llama), {.rank_pattern = {{"q_proj", 9}, {"self_attn.q_proj", 9}}}), "");
}

TEST(AdapterTable, HasWholeModulesBesides) {
  const TensorTable model = table(Family::llama);
  const TensorTable adapter = adapter_table(model, {.modules_to_save = {"lm_head", "mlp.up_proj"}});
  EXPECT_EQ(names_in(adapter.blocks.back()), (std::vector<std::string>{"lm_head.weight"}));
  EXPECT_EQ(tensor_of(adapter, "model.layers.0.mlp.up_proj.weight").shape,
            (std::vector<std::int64_t>{40, 24}));
  EXPECT_THROW(tensor_of(adapter, "model.layers.0.mlp.up_proj.lora_A.weight"), std::logic_error);
  EXPECT_NE(problem_of(table(Family::llama, true), {.modules_to_save = {"lm_head"}}).find("tied"),
            std::string::npos);
  EXPECT_NE(problem_of(table(Family::llama, true), {.modules_to_save = {"embed_tokens"}}).find("tied"),
            std::string::npos);
  EXPECT_NE(problem_of(model, {.modules_to_save = {"score"}}).find("no module 'score'"), std::string::npos);
}

// PEFT matches ends of names too.
TEST(AdapterTable, FindsWholeModulesByAnyEndOfTheirNames) {
  const TensorTable adapter = adapter_table(table(Family::llama), {.modules_to_save = {"norm"}});
  tensor_of(adapter, "model.norm.weight");
  tensor_of(adapter, "model.layers.1.input_layernorm.weight");
  tensor_of(adapter, "model.layers.1.post_attention_layernorm.weight");
}

// GPT-NeoX's head is embed_out in files, but lm_head in memory, where PEFT looks for it.
TEST(AdapterTable, KnowsModulesByTheirNamesInMemory) {
  const TensorTable model = table(Family::gpt_neox);
  for (const char* name : {"embed_out", "lm_head"}) {
    const AdapterSettings settings{.modules_to_save = {name}};
    const TensorTable adapter = adapter_table(model, settings);
    EXPECT_EQ(names_in(adapter.blocks.back()), (std::vector<std::string>{"embed_out.weight"}));
    EXPECT_EQ(peft_name(adapter, "embed_out.weight"), "lm_head.weight");
    EXPECT_EQ(peft_modules_to_save(model, settings), (std::vector<std::string>{"lm_head"}));
  }
}

}  // namespace
}  // namespace dpo::model
