// Runs updates of an optimizer on gradients from a test.
//
//   optim_probe NAME LEARNING_RATE BETA1 BETA2 EPSILON WEIGHT_DECAY STATE IN.safetensors OUT.safetensors
//
// A setting may be "null"; STATE is optimizer_state. In: float32 weights "w.I" and gradients "g.STEP.I". Out:
// the weights after all steps.
#include <iostream>
#include <map>

#include <ATen/ops/from_blob.h>

#include "checkpoint/formats/safetensors.h"
#include "optim/optimizer.h"

namespace {

using namespace dpo;

using Tensors = std::map<std::string, at::Tensor>;

Tensors read(const checkpoint::SafetensorsFile& file) {
  Tensors tensors;
  for (const checkpoint::Entry& entry : file.header().entries)
    tensors[entry.name] =
        at::from_blob(const_cast<std::byte*>(file.bytes_of(entry).data()), entry.shape, at::kFloat).clone();
  return tensors;
}

// Returns all tensors whose names begin with `prefix`, as the one block of a model.
model::Weights block_of(const Tensors& tensors, const std::string& prefix) {
  model::TensorTable table;
  table.blocks.push_back({model::BlockKind::layer, "", {}});
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix))
      table.blocks[0].tensors.push_back({name, tensor.sizes().vec(), std::nullopt, false});
  model::Weights weights = model::make_weights(table, at::kFloat, at::kCPU);
  for (model::NamedTensor& named : weights.blocks[0].tensors) named.tensor.copy_(tensors.at(named.name));
  return weights;
}

std::optional<double> number(const std::string& word) {
  return word == "null" ? std::nullopt : std::optional(std::stod(word));
}

optim::OptimizerSettings settings_of(char** words) {
  optim::OptimizerSettings settings{.epsilon = number(words[2]), .weight_decay = number(words[3])};
  if (const auto beta1 = number(words[0])) settings.betas = std::pair(*beta1, number(words[1]).value());
  settings.state = config::find_choice<config::OptimizerState>(words[4]);
  return settings;
}

void run(char** argv) {
  const Tensors given = read(checkpoint::SafetensorsFile(argv[8]));
  model::Weights weights = block_of(given, "w.");
  const auto kind = config::find_choice<config::Optimizer>(argv[1]).value();
  const auto optimizer = optim::make_optimizer(kind, weights, settings_of(argv + 3));
  for (int step = 0; given.contains("g." + std::to_string(step) + ".0"); ++step)
    optimizer->step(weights, block_of(given, "g." + std::to_string(step) + "."), std::stod(argv[2]),
                    /*seed=*/0);
  std::vector<checkpoint::TensorToWrite> sources;
  for (const model::NamedTensor& named : weights.blocks[0].tensors)
    sources.push_back({named.name, checkpoint::Dtype::F32, named.tensor.sizes().vec(), [data = named.tensor] {
                         return std::span(static_cast<const std::byte*>(data.const_data_ptr()),
                                          static_cast<std::size_t>(data.nbytes()));
                       }});
  checkpoint::write_safetensors(argv[9], std::move(sources));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) return 2;
  try {
    run(argv);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
