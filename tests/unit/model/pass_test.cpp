#include "model/pass.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "model/init.h"

namespace dpo::model {
namespace {

// Returns two trees, and a response whose end is not scored.
data::Forest two_trees() {
  static const std::vector<data::Token> texts[] = {
      {5, 17, 3}, {8, 9}, {60, 61, 7, 4, 2, 3}, {1, 2, 4, 5}, {30}};
  static const std::vector<data::TokenRange> end = {{3, 6}};
  const std::vector<data::Example> examples = {
      {.prompt = texts[0], .responses = {texts[1], texts[2]}, .unscored = {{}, end}},
      {.prompt = texts[3], .responses = {texts[4], texts[2]}}};
  return data::make_forest(examples);
}

// Returns trees with one response each.
data::Forest two_sequences() {
  static const std::vector<data::Token> texts[] = {
      {5, 17, 3}, {8, 9}, {1, 2, 4, 5}, {60, 61, 7, 4, 2, 3}, {}};
  const std::vector<data::Example> examples = {{.prompt = texts[0], .responses = {texts[1]}},
                                               {.prompt = texts[2], .responses = {texts[3]}},
                                               {.prompt = texts[4], .responses = {texts[3]}}};
  return data::make_forest(examples);
}

TEST(Batch, PutsAPromptNextToItsOnlyResponse) {
  ModelShape shape;
  shape.vocabulary = 100;
  shape.context = 20;
  const data::Forest forest = two_sequences();
  const Batch all = make_batch(forest, shape, at::kCPU, {.all_tokens = true});
  const Batch batch = make_batch(forest, shape, at::kCPU);
  EXPECT_EQ(batch.layout->prompt_tokens(), 0);
  EXPECT_EQ(batch.layout->sequences.starts, (std::vector<std::int32_t>{0, 0, 0, 0, 4, 13, 18}));
  EXPECT_TRUE(batch.positions.narrow(0, 4, 9).equal(at::arange(9)));
  for (const auto member : {&Batch::tokens, &Batch::positions, &Batch::lengths})
    EXPECT_TRUE((batch.*member).index_select(0, batch.rows).equal((all.*member).index_select(0, all.rows)));
}

TEST(Batch, LeavesOutTokensThatNothingReads) {
  const data::Forest forest = two_trees();
  ModelShape shape;
  shape.vocabulary = 100;
  shape.context = 20;
  const Batch all = make_batch(forest, shape, at::kCPU, {.all_tokens = true});
  const Batch batch = make_batch(forest, shape, at::kCPU);
  EXPECT_EQ(all.tokens.size(0), 3 + 4 + 2 + 6 + 1 + 6);
  EXPECT_EQ(batch.tokens.size(0), 3 + 4 + 1 + 2 + 1 + 5);
  EXPECT_EQ(batch.layout->sequences.starts, (std::vector<std::int32_t>{0, 3, 7, 8, 10, 11, 16}));
  for (const auto member : {&Batch::tokens, &Batch::positions, &Batch::lengths})  // equal in both layouts
    EXPECT_TRUE((batch.*member).index_select(0, batch.rows).equal((all.*member).index_select(0, all.rows)));
  shape.experts = 4;
  EXPECT_EQ(make_batch(forest, shape, at::kCPU).tokens.size(0), all.tokens.size(0));
}

TEST(Batch, KnowsTheResponseOfEachRow) {
  const data::Forest forest = two_trees();
  ModelShape shape;
  shape.vocabulary = 100;
  shape.context = 20;
  for (const std::int64_t multiple : {1, 32}) {
    const Batch batch = make_batch(forest, shape, at::kCPU, {.multiple = multiple});
    const at::Tensor lengths = at::tensor({2, 3, 1, 6}, at::kLong);
    EXPECT_TRUE(batch.responses.lengths.equal(lengths));
    EXPECT_TRUE(batch.responses.of_rows.equal(at::arange(4).repeat_interleave(lengths)));
  }
}

TEST(Batch, MovesEveryTensorToADevice) {
  ModelShape shape;
  shape.vocabulary = 100;
  shape.context = 20;
  shape.window = 4;
  Batch batch = make_batch(two_trees(), shape, at::kCPU);
  for (ops::RowSums* sums : {&batch.token_sums, &batch.row_sums})
    *sums = {at::arange(2), at::arange(3), at::arange(4)};
  batch.row_weights = at::arange(12);
  const Batch there = to_device(batch, at::kMeta);
  const auto is_moved = [](const at::Tensor& to, const at::Tensor& from) {
    return to.is_meta() && to.sizes() == from.sizes() && to.scalar_type() == from.scalar_type();
  };
  for (const auto member : {&Batch::tokens, &Batch::positions, &Batch::lengths, &Batch::rows, &Batch::targets,
                            &Batch::row_weights})
    EXPECT_TRUE(is_moved(there.*member, batch.*member));
  EXPECT_TRUE(is_moved(there.responses.lengths, batch.responses.lengths));
  EXPECT_TRUE(is_moved(there.responses.of_rows, batch.responses.of_rows));
  for (const auto sums : {&Batch::token_sums, &Batch::row_sums})
    for (const auto member : {&ops::RowSums::rows, &ops::RowSums::starts, &ops::RowSums::source_rows})
      EXPECT_TRUE(is_moved(there.*sums.*member, batch.*sums.*member));
  for (const auto segments :
       {&ops::ForestLayout::sequences, &ops::ForestLayout::branches, &ops::ForestLayout::prompts})
    EXPECT_TRUE(is_moved((*there.layout.*segments).device_starts, (*batch.layout.*segments).device_starts));
  EXPECT_TRUE(is_moved(there.layout->window->keys, batch.layout->window->keys));
}

std::string config_of(const std::string& family, const std::string& more) {
  return R"({"model_type": ")" + family +
         R"(", "hidden_size": 40, "intermediate_size": 72, "num_hidden_layers": 3,
      "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 64,
      "initializer_range": 0.3, "pad_token_id": null)" +
         more + "}";
}

// The last layer computes only the rows that the head reads.
TEST(Pass, ScoresAreThoseOfAllLogits) {
  const std::string gpt2 =
      R"({"model_type": "gpt2", "n_embd": 36, "n_layer": 2, "n_head": 3, "vocab_size": 89,
                              "n_positions": 64, "initializer_range": 0.3})";
  const std::string gptj = R"({"model_type": "gptj", "n_embd": 32, "n_layer": 2, "n_head": 2, "rotary_dim": 8,
                              "vocab_size": 89, "n_positions": 64, "initializer_range": 0.3})";
  for (const std::string& json :
       {gpt2, gptj, config_of("llama", ""), config_of("gpt_neox", R"(, "use_parallel_residual": true)"),
        config_of("gpt_neox", R"(, "use_parallel_residual": false)"),
        config_of("gemma2", R"(, "head_dim": 20, "sliding_window": 4, "final_logit_softcapping": 20.0)"),
        config_of("olmo2", ""), config_of("cohere", ""),
        config_of("mixtral", R"(, "num_local_experts": 5, "num_experts_per_tok": 2)")}) {
    const Model model = make_model(parse_model_config(json, "test"));
    Weights weights = make_weights(model.table, at::kFloat, at::kCPU);
    initialize(weights, model.table, model.config, 5);
    for (const data::Forest& forest : {two_trees(), two_sequences()}) {
      const Batch all = make_batch(forest, model.config.shape, at::kCPU, {.all_tokens = true});
      const at::Tensor of_tokens = at::log_softmax(all_logits(model, weights, all), 1)
                                       .index_select(0, all.rows)
                                       .gather(1, all.targets.unsqueeze(1));
      std::vector<at::Tensor> sums;
      for (std::size_t r = 0; r + 1 < forest.row_starts.size(); ++r)
        sums.push_back(
            of_tokens.narrow(0, forest.row_starts[r], forest.row_starts[r + 1] - forest.row_starts[r]).sum());
      for (const std::int64_t multiple : {1, 32}) {
        const Batch batch = make_batch(forest, model.config.shape, at::kCPU, {.multiple = multiple});
        if (model.config.shape.experts == 0) {
          EXPECT_EQ(batch.tokens.size(0) % multiple, 0);
          EXPECT_EQ(batch.rows.size(0) % multiple, 0);
        }
        const at::Tensor scores = forward(model, weights, batch, {}).log_probs;
        ASSERT_EQ(scores.size(0), forest.responses());
        EXPECT_LT((scores - at::stack(sums)).abs().max().item<double>(), 1e-4) << json;
      }
    }
  }
}

TEST(Pass, PaddingHasNoGradient) {
  const Model model = make_model(parse_model_config(config_of("llama", ""), "test"));
  Weights weights = make_weights(model.table, at::kDouble, at::kCPU);
  initialize(weights, model.table, model.config, 5);
  const auto gradients_with = [&](const data::Forest& forest, std::int64_t multiple) {
    Weights sums = make_weights(model.table, at::kDouble, at::kCPU);
    ResidentGradients gradients(sums);
    ResidentStore store(weights);
    const Batch batch = make_batch(forest, model.config.shape, at::kCPU, {.multiple = multiple});
    SavedActivations saved;
    const at::Tensor scores = forward(model, store, batch, {}, saved).log_probs;
    backward(model, store, batch, {}, saved, at::ones_like(scores), gradients);
    return sums;
  };
  for (const data::Forest& forest : {two_trees(), two_sequences()}) {
    const Weights alone = gradients_with(forest, 1), padded = gradients_with(forest, 32);
    for (std::size_t b = 0; b < alone.blocks.size(); ++b)
      EXPECT_LT((alone.blocks[b].flat - padded.blocks[b].flat).abs().max().item<double>(), 1e-9) << b;
  }
}

// Returns the gradient of the matrix that maps hidden states to logits.
at::Tensor head_gradient(const Model& model, const Weights& gradients) {
  const TensorTable& table = model.table;
  return table.is_tied() ? gradients.blocks[table.first(BlockKind::embedding)](table.embedding_name)
                         : gradients.blocks[table.first(BlockKind::head)](table.head_name);
}

// Covers a tied and an untied head, and logits in one chunk and in several.
TEST(Pass, ConstantLossGradientsGiveTheSameBits) {
  for (const char* tied : {"true", "false"})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
      for (const std::int64_t chunk_rows : {2, 100}) {
        const std::string more = std::string(R"(, "tie_word_embeddings": )") + tied;
        const Model model = make_model(parse_model_config(config_of("llama", more), "test"));
        Weights weights = make_weights(model.table, dtype, at::kCPU);
        initialize(weights, model.table, model.config, 5);
        const Batch batch = make_batch(two_sequences(), model.config.shape, at::kCPU);
        const at::Tensor by_score = at::tensor({-0.5, -0.25, 0.125}, at::kFloat);
        const PassOptions options{.entropy = true, .chunk_rows = chunk_rows};
        const auto pass = [&](bool is_constant) {
          Weights sums = make_weights(model.table, at::kFloat, at::kCPU);
          ResidentGradients gradients(sums);
          ResidentStore store(weights);
          SavedActivations saved;
          std::optional<ConstantLossGradients> constant;
          if (is_constant) constant.emplace(by_score, gradients);
          ops::ResponseScores scores = forward(model, store, batch, options, saved, constant);
          // The head's backward pass needs the logits, so it must already be done.
          EXPECT_EQ(head_gradient(model, sums).abs().max().item<double>() > 0, is_constant);
          backward(model, store, batch, options, saved, by_score, gradients);
          return std::pair(std::move(scores), std::move(sums));
        };
        const auto [later_scores, later] = pass(false);
        const auto [scores, sums] = pass(true);
        EXPECT_TRUE(scores.log_probs.equal(later_scores.log_probs));
        EXPECT_TRUE(scores.entropy.equal(later_scores.entropy));
        for (std::size_t b = 0; b < later.blocks.size(); ++b) {
          EXPECT_GT(later.blocks[b].flat.abs().max().item<double>(), 0) << b;
          EXPECT_TRUE(sums.blocks[b].flat.equal(later.blocks[b].flat)) << b;
        }
      }
}

}  // namespace
}  // namespace dpo::model
