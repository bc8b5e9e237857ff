// Makes a tiny model with random weights, and a forest for it.
#pragma once

#include <string>

#include "data/forest.h"
#include "model/init.h"
#include "model/pass.h"

namespace dpo::shard {

struct MadeModel {
  model::Model model;
  model::Weights weights;
};

inline MadeModel make_model(const std::string& family) {
  const std::string config =
      family == "gpt2"
          ? R"({"model_type": "gpt2", "n_embd": 36, "n_layer": 3, "n_head": 3, "vocab_size": 89, "n_positions": 64,
               "initializer_range": 0.3})"
      : family == "mixtral"
          ? R"({"model_type": "mixtral", "hidden_size": 40, "intermediate_size": 30, "num_hidden_layers": 3,
               "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 97, "num_local_experts": 5,
               "num_experts_per_tok": 2, "max_position_embeddings": 64, "initializer_range": 0.3})"
          : R"({"model_type": "llama", "hidden_size": 40, "intermediate_size": 72, "num_hidden_layers": 3,
               "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20, "vocab_size": 97,
               "max_position_embeddings": 64, "initializer_range": 0.3})";
  MadeModel made{model::make_model(model::parse_model_config(config, "test")), {}};
  made.weights = model::make_weights(made.model.table, at::kFloat, at::kCPU);
  model::initialize(made.weights, made.model.table, made.model.config, 5);
  return made;
}

inline data::Forest make_forest() {
  static const std::vector<data::Token> texts[] = {{5, 17, 3}, {8, 9}, {60, 61, 7, 4}, {1, 2, 3, 4, 5}, {30}};
  const std::vector<data::Example> examples = {{.prompt = texts[0], .responses = {texts[1], texts[2]}},
                                               {.prompt = texts[3], .responses = {texts[4], texts[1]}}};
  return data::make_forest(examples);
}

// Computes the gradients of the sum of all log-probabilities.
inline void pass(const model::Model& model, model::Store& store, model::GradientStore& gradients,
                 const data::Forest& forest, std::int64_t recomputed, at::Tensor& log_probs) {
  const model::Batch batch = model::make_batch(forest, model.config.shape, store.device(0));
  const model::PassOptions options{.recomputed_layers = recomputed};
  model::SavedActivations saved;
  log_probs = model::forward(model, store, batch, options, saved).log_probs.cpu();
  model::backward(model, store, batch, options, saved, log_probs.new_ones(log_probs.sizes()), gradients);
}

}  // namespace dpo::shard
