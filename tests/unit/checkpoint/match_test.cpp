#include "checkpoint/match.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::checkpoint {
namespace {

model::ModelShape shape(bool tied, model::Family family = model::Family::gpt2) {
  model::ModelShape s;
  s.family = family;
  s.layers = 1;
  s.hidden = 8;
  s.ffn = 32;
  s.heads = s.kv_heads = 2;
  s.head_dim = 4;
  s.vocabulary = 13;
  s.context = 16;
  s.attention_bias = s.mlp_bias = true;
  s.tied_embeddings = tied;
  return s;
}

// Returns the tensors in a file of this model.
std::vector<StoredTensor> stored_of(const model::TensorTable& table) {
  std::vector<StoredTensor> stored;
  for (const model::Block& block : table.blocks)
    for (const model::TensorInfo& tensor : block.tensors)
      stored.push_back({tensor.name, Dtype::F32, tensor.shape, {}, 0, 100 * stored.size(), 0});
  return stored;
}

std::vector<std::string> problems_of(const model::TensorTable& table,
                                     const std::vector<StoredTensor>& stored) {
  try {
    match_tensors(table, stored, "file");
  } catch (const UserError& error) {
    return error.problems();
  }
  return {};
}

StoredTensor& named(std::vector<StoredTensor>& stored, const std::string& name) {
  for (StoredTensor& tensor : stored)
    if (tensor.name == name) return tensor;
  throw std::logic_error(name);
}

TEST(Match, FindsEveryTensor) {
  const auto table = model::tensor_table(shape(false));
  auto stored = stored_of(table);
  std::reverse(stored.begin(), stored.end());
  const Match match = match_tensors(table, stored, "file");
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    for (std::size_t j = 0; j < table.blocks[i].tensors.size(); ++j)
      EXPECT_EQ(stored[match.sources[i][j]].name, table.blocks[i].tensors[j].name);
  EXPECT_FALSE(match.second_head);
}

TEST(Match, AcceptsOtherNames) {
  const auto table = model::tensor_table(shape(true));
  for (const std::string wrapper : {"module.", "_orig_mod.", "_fsdp_wrapped_module.", "module._orig_mod."}) {
    auto stored = stored_of(table);
    for (StoredTensor& tensor : stored) tensor.name = wrapper + tensor.name;
    EXPECT_TRUE(problems_of(table, stored).empty()) << wrapper;
  }
  auto stored = stored_of(table);
  named(stored, "transformer.h.0.ln_1.bias").name = "transformer.h.0._fsdp_wrapped_module.ln_1.bias";
  named(stored, "transformer.wte.weight").name = "transformer._orig_mod.wte.weight";
  EXPECT_TRUE(problems_of(table, stored).empty());

  stored = stored_of(table);
  for (StoredTensor& tensor : stored) tensor.name.erase(0, table.base_prefix.size());
  stored.push_back({"h.0.attn.bias", Dtype::U8, {1, 1, 16, 16}, {}, 0, 9999, 0});
  stored.push_back({"h.0.attn.masked_bias", Dtype::F32, {}, {}, 0, 9998, 0});
  EXPECT_TRUE(problems_of(table, stored).empty());

  EXPECT_EQ(without_wrappers("submodule.module.x"), "submodule.x");
}

TEST(Match, AcceptsTheNewNameOfAnOldHead) {
  const auto table = model::tensor_table(shape(false, model::Family::gpt_neox));
  auto stored = stored_of(table);
  named(stored, "embed_out.weight").name = "lm_head.weight";
  EXPECT_TRUE(problems_of(table, stored).empty());
}

TEST(Match, FindsTheTextPartOfAModelForImages) {
  const auto table = model::tensor_table(shape(true, model::Family::gemma3));
  for (const char* prefix : {"language_model.model.", "model.language_model."}) {
    auto stored = stored_of(table);
    for (StoredTensor& tensor : stored) tensor.name.replace(0, std::string("model.").size(), prefix);
    stored.push_back({"vision_tower.vision_model.head.bias", Dtype::F32, {1}, {}, 0, 0, 0});
    stored.push_back({"multi_modal_projector.weight", Dtype::F32, {1}, {}, 0, 0, 0});
    EXPECT_TRUE(problems_of(table, stored).empty()) << prefix;
  }
}

TEST(Match, SettlesTiedHeads) {
  const auto table = model::tensor_table(shape(true));
  auto stored = stored_of(table);
  const StoredTensor embedding = named(stored, table.embedding_name);

  stored.push_back(embedding);  // one storage under two names
  stored.back().name = table.head_name;
  EXPECT_FALSE(match_tensors(table, stored, "file").second_head);

  stored.back().offset = 5555;
  EXPECT_EQ(match_tensors(table, stored, "file").second_head, stored.size() - 1);

  stored.back().shape = {14, 8};
  EXPECT_EQ(problems_of(table, stored),
            std::vector<std::string>{
                "file: tensor 'lm_head.weight' has the shape [14, 8], expected [13, 8] (from config.json)"});

  stored = stored_of(table);
  named(stored, table.embedding_name).name = table.head_name;
  const Match match = match_tensors(table, stored, "file");
  EXPECT_EQ(stored[match.sources[0][0]].name, "lm_head.weight");
  EXPECT_FALSE(match.second_head);
}

TEST(Match, ListsEveryDifference) {
  const auto table = model::tensor_table(shape(false));
  auto stored = stored_of(table);
  named(stored, "transformer.h.0.ln_1.weight").name = "transformer.h.0.lm_1.weight";
  named(stored, "transformer.wpe.weight").shape = {8, 16};
  named(stored, "lm_head.weight").dtype = Dtype::I8;
  std::erase_if(stored, [](const StoredTensor& t) { return t.name == "transformer.ln_f.bias"; });
  stored.push_back({"v_head.summary.weight", Dtype::F32, {1}, {}, 0, 0, 0});
  EXPECT_EQ(
      problems_of(table, stored),
      (std::vector<std::string>{
          "file: tensor 'transformer.wpe.weight' has the shape [8, 16], expected [16, 8] (from config.json)",
          "file: tensor 'lm_head.weight' has the dtype I8, expected F64, F32, F16 or BF16: of quantized "
          "weights only bitsandbytes' nf4 and int8 are supported",
          "file: the model's tensor 'transformer.h.0.ln_1.weight' is missing; is it "
          "'transformer.h.0.lm_1.weight' in the file?",
          "file: the model's tensor 'transformer.ln_f.bias' is missing",
          "file: the model has no tensor 'transformer.h.0.lm_1.weight'; did you mean "
          "'transformer.h.0.ln_1.weight'?",
          "file: the model has no tensor 'v_head.summary.weight'"}));
}

TEST(Match, RefusesDuplicates) {
  const auto table = model::tensor_table(shape(false));
  auto stored = stored_of(table);
  stored.push_back(named(stored, "transformer.wpe.weight"));
  stored.back().name = "module.transformer.wpe.weight";
  EXPECT_TRUE(problems_of(table, stored).empty()) << "the same bytes under two names";
  stored.back().offset = 7777;
  EXPECT_EQ(problems_of(table, stored),
            std::vector<std::string>{"file: 'transformer.wpe.weight' and 'module.transformer.wpe.weight' are "
                                     "both the model's tensor 'transformer.wpe.weight'"});
}

}  // namespace
}  // namespace dpo::checkpoint
