#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/example.h"
#include "model/model.h"
#include "model/sampling.h"
#include "model/store.h"

namespace dpo::model {

struct Prompt {
  std::span<const data::Token> tokens;
  std::uint64_t number = 0;  // with the seed, determines the random numbers of its samples
};

struct GenerateOptions {
  SamplingOptions sampling;
  std::int64_t max_new_tokens = 256;  // fewer if the model's context ends
  std::int64_t samples = 1;           // of each prompt
  std::vector<data::Token> eos;       // any of these ends a sample
  std::uint64_t seed = 0;
  // Broadcasts the tokens that one rank drew, if several ranks draw the same samples.
  std::function<void(const at::Tensor& tokens)> broadcast = [](const at::Tensor&) {};
};

enum class Finish { eos, stopped, length };

struct Generated {
  std::vector<data::Token> tokens;  // includes the token of options.eos that ended it
  Finish finish = Finish::length;
};

// Called for every token except those of options.eos; sample i continues prompt i / options.samples.
// Returning false ends the sample after this token.
using OnToken = std::function<bool(std::size_t sample, data::Token token)>;

// Generates the samples of each prompt, those of the first prompt first. All prompts are computed as one
// batch without padding, and each once for all its samples. Throws a UserError for an empty prompt, one that
// fills the model's context, or invalid options. Ranks that share a store all generate the same samples.
std::vector<Generated> generate(const Model& model, Store& store, std::span<const Prompt> prompts,
                                const GenerateOptions& options, const OnToken& on_token = {});

// Overload for weights that this process holds whole.
std::vector<Generated> generate(const Model& model, const Weights& weights, std::span<const Prompt> prompts,
                                const GenerateOptions& options, const OnToken& on_token = {});

}  // namespace dpo::model
