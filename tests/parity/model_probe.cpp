// Computes logits, log-probabilities and gradients of a model, for the parity tests.
//
//   model_probe MODEL REQUEST.json ANSWER.safetensors
//
// The request: {"dtype", "device", "recompute", "router_aux_loss_coef", "examples": [{"prompt": [ids],
// "responses": [[ids]...], "weights": [w...]}...]}. All examples make one forest. The answer holds, by
// example e and response r, "logits.e.r" [prompt + response tokens, vocabulary] (with "logits": true), and in
// the order of the request "log_probs", "entropy" (the mean over a response's tokens), "aux_loss" (the
// balance loss), and "gradient.NAME" of sum(w * log_prob) + router_aux_loss_coef * aux_loss for every
// parameter.
#include <fstream>
#include <iostream>

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include "checkpoint/formats/safetensors.h"
#include "checkpoint/load.h"
#include "data/forest.h"
#include "model/pass.h"
#include "read_examples.h"

namespace {

using namespace dpo;
using nlohmann::json;

struct Request {
  ExampleReader reader;
  std::vector<data::Example> examples;
  std::vector<std::vector<double>> weights;
};

Request read_request(const json& list) {
  Request request;
  request.examples = request.reader.read(list);
  for (const json& item : list) request.weights.push_back(item.at("weights").get<std::vector<double>>());
  return request;
}

// Calls visit(example, place, response of the forest) for each response that an example compares.
template <class Visit>
void for_each_compared(const data::Forest& forest, Visit visit) {
  for (std::size_t e = 0; e < forest.examples.size(); ++e)
    for (std::int32_t i = forest.example_starts[e]; i < forest.example_starts[e + 1]; ++i)
      visit(static_cast<std::size_t>(forest.examples[e]),
            static_cast<std::size_t>(i - forest.example_starts[e]),
            static_cast<std::size_t>(forest.compared[static_cast<std::size_t>(i)]));
}

std::size_t tree_of(const data::Forest& forest, std::size_t response) {
  std::size_t tree = 0;
  while (static_cast<std::size_t>(forest.tree_responses[tree + 1]) <= response) ++tree;
  return tree;
}

using Answer = std::vector<std::pair<std::string, at::Tensor>>;

void add_logits(Answer& answer, const at::Tensor& logits, const data::Forest& forest) {
  for_each_compared(forest, [&](std::size_t example, std::size_t place, std::size_t response) {
    const auto rows = [&](const std::vector<std::int32_t>& starts, std::size_t i) {
      return logits.narrow(0, starts[i], starts[i + 1] - starts[i]);
    };
    answer.emplace_back("logits." + std::to_string(example) + "." + std::to_string(place),
                        at::cat({rows(forest.prompt_starts, tree_of(forest, response)),
                                 rows(forest.response_starts, response)}));
  });
}

at::Tensor mean_by_response(const at::Tensor& by_row, const std::vector<std::int32_t>& starts) {
  std::vector<double> means;
  for (std::size_t r = 0; r + 1 < starts.size(); ++r) {
    const std::int64_t rows = starts[r + 1] - starts[r];
    means.push_back(rows > 0 ? by_row.narrow(0, starts[r], rows).mean().item<double>() : 0);
  }
  return at::tensor(means, at::kDouble);
}

Answer answer_of(const checkpoint::LoadedModel& loaded, const Request& request, const json& asked,
                 at::Device device) {
  const model::Model model = model::make_model(loaded.config);
  const data::Forest forest = data::make_forest(request.examples);
  const model::Batch batch = model::make_batch(forest, loaded.config.shape, device);
  model::PassOptions options;
  options.entropy = true;
  options.chunk_rows = 16;
  options.recomputed_layers = asked.value("recompute", false) ? model.config.shape.layers : 0;
  options.router_aux_loss_coef = asked.value("router_aux_loss_coef", 0.0);
  Answer answer;
  if (asked.value("logits", false))
    add_logits(
        answer,
        model::all_logits(model, loaded.weights,
                          model::make_batch(forest, loaded.config.shape, device, {.all_tokens = true})),
        forest);

  const at::Tensor weights = at::zeros({forest.responses()}, at::kFloat);
  for_each_compared(forest, [&](std::size_t example, std::size_t place, std::size_t response) {
    weights[static_cast<std::int64_t>(response)] += request.weights[example][place];
  });
  model::SavedActivations saved;
  model::ResidentStore store(loaded.weights);
  const ops::ResponseScores scores = model::forward(model, store, batch, options, saved);
  const ops::ResponseScores alone = model::forward(model, loaded.weights, batch, options);
  if (!scores.log_probs.equal(alone.log_probs)) throw std::runtime_error("the two forward passes differ");
  answer.emplace_back("aux_loss", at::tensor({saved.balance.value()}, at::kDouble));
  model::Weights gradients = model::make_weights(loaded.table, at::kFloat, device);
  model::ResidentGradients sums(gradients);
  model::backward(model, store, batch, options, saved, weights.to(device), sums);

  const at::Tensor entropy = mean_by_response(scores.entropy, forest.row_starts);
  std::vector<at::Tensor> log_probs, entropies;
  for_each_compared(forest, [&](std::size_t, std::size_t, std::size_t response) {
    log_probs.push_back(scores.log_probs[static_cast<std::int64_t>(response)].reshape({1}));
    entropies.push_back(entropy[static_cast<std::int64_t>(response)].reshape({1}));
  });
  answer.emplace_back("log_probs", at::cat(log_probs));
  answer.emplace_back("entropy", at::cat(entropies));
  for (std::size_t b = 0; b < gradients.blocks.size(); ++b)
    for (std::size_t t = 0; t < gradients.blocks[b].tensors.size(); ++t)
      answer.emplace_back("gradient." + loaded.table.blocks[b].tensors[t].name,
                          gradients.blocks[b].tensors[t].tensor);
  return answer;
}

void write(const std::filesystem::path& path, const Answer& answer) {
  std::vector<at::Tensor> kept;
  kept.reserve(answer.size());
  std::vector<checkpoint::TensorToWrite> sources;
  for (const auto& [name, tensor] : answer) {
    kept.push_back(tensor.detach().to(at::kCPU, at::kFloat).contiguous());
    const at::Tensor& data = kept.back();
    sources.push_back({name, checkpoint::Dtype::F32, data.sizes().vec(), [data] {
                         return std::span(static_cast<const std::byte*>(data.const_data_ptr()),
                                          static_cast<std::size_t>(data.nbytes()));
                       }});
  }
  checkpoint::write_safetensors(path, std::move(sources));
}

int answer_request(char** argv) {
  try {
    std::ifstream file(argv[2]);
    const json asked = json::parse(file);
    const at::Device device(asked.value("device", "cpu"));
    const bool half = asked.value("dtype", "float32") == "bfloat16";
    at::globalContext().setAllowTF32CuBLAS(false);
    const checkpoint::LoadedModel loaded =
        checkpoint::load_model(argv[1], half ? at::kBFloat16 : at::kFloat, device);
    write(argv[3], answer_of(loaded, read_request(asked.at("examples")), asked, device));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) { return argc == 4 ? answer_request(argv) : 2; }
