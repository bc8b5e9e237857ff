// Trains on a mesh of ranks and writes what mesh_test.py compares.
//
//   mpirun -n RANKS mesh_probe REQUEST.json FOLDER
//
// The request: {"batches": [[{"prompt": [ids], "responses": [[ids]...]}...]...], "cases": [{"name", "model",
// "mesh": {"replica", "shard", "tensor"}, "stored", "computed", "recompute", "microbatches", "whole",
// "reduced", "loss", "optimizer", "lr", "max_grad_norm", "device", "adapter": {"r", "dora",
// "base_dtype"}}...]}. Every case trains on all batches. With an adapter, the tensors below belong to it.
// FOLDER/NAME.safetensors then holds the "logits" of the first batch's examples, packed as one forest; its
// "gradient.TENSOR"s and their "norm"; "losses", "scores" (of chosen responses) and "norms" of each update;
// the final "weight.TENSOR"s; "gathered", the most blocks that were gathered at once.
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>

#include "../parity/read_examples.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/load.h"
#include "comm/world.h"
#include "config/losses.h"
#include "data/forest.h"
#include "model/quantized_block.h"
#include "model/spec/adapter.h"
#include "ops/devices.h"
#include "shard/adapter.h"
#include "shard/sharded_store.h"
#include "train/update.h"

namespace {

using namespace dpo;
using nlohmann::json;

config::Dtype type_named(const std::string& name) { return *config::find_choice<config::Dtype>(name); }

// Returns a model with LoRA. B is random too, so that no gradient is zero at first.
model::Model with_adapter(const model::Model& model, const json& asked) {
  const model::AdapterSettings settings{.r = asked.at("r"), .dora = asked.value("dora", false)};
  model::TensorTable adapter = model::adapter_table(model.table, settings);
  for (model::Block& block : adapter.blocks)
    for (model::TensorInfo& tensor : block.tensors)
      if (tensor.init == model::Init::zeros) tensor.init = model::Init::normal;
  return model::make_model(model.config, std::move(adapter));
}

// Loads the frozen matrices quantized, if the adapter is over quantized weights.
model::Weights load_small(const json& asked, at::ScalarType type, const shard::Mesh& mesh) {
  const std::string name = asked.at("adapter").at("base_dtype");
  const ops::QuantizedDtype dtype = name == "nf4"    ? ops::QuantizedDtype::nf4
                                    : name == "int8" ? ops::QuantizedDtype::int8
                                                     : ops::QuantizedDtype::fp8;
  const auto each_block = [&](const model::Block& block, const model::BlockWeights& weights,
                              const model::StoredMatrices& stored) {
    return model::quantize(weights, block, dtype, mesh.layout(), stored);
  };
  return checkpoint::load_model(asked.at("model"), type, mesh.device, {}, {}, {}, each_block).weights;
}

train::TrainState make_train_state(const json& asked, const shard::Mesh& mesh) {
  const config::Storage storage{.stored = type_named(asked.value("stored", "float32")),
                                .computed = type_named(asked.value("computed", "float32")),
                                .reduced = type_named(asked.value("reduced", "float32")),
                                .accumulates_unsharded = asked.value("whole", false)};
  const at::ScalarType stored = train::scalar_type_of(storage.stored);
  const at::ScalarType computed = train::scalar_type_of(storage.computed);
  const auto load = [&](at::ScalarType type) {
    return checkpoint::load_model(asked.at("model"), type, mesh.device, {}, {}, mesh.layout());
  };
  const bool has_adapter = asked.contains("adapter");
  checkpoint::LoadedModel loaded = load(has_adapter ? computed : stored);
  const model::Model frozen = model::make_model(loaded.config);
  const model::Model model = has_adapter ? with_adapter(frozen, asked.at("adapter")) : frozen;
  std::optional<shard::LocalModel> base;
  if (has_adapter) {
    if (asked.at("adapter").contains("base_dtype")) loaded.weights = load_small(asked, computed, mesh);
    base.emplace(frozen, std::move(loaded.weights), mesh);
    loaded.weights = shard::new_adapter(model.trained, *base, stored, 7, mesh);
  }
  model::PassOptions pass;
  pass.recomputed_layers = asked.value("recompute", false) ? frozen.config.shape.layers : 0;
  pass.chunk_rows = 16;
  config::LossConfig loss;
  loss.beta = 0.1;
  loss.name = config::find_choice<config::Loss>(asked.value("loss", "dpo")).value();
  train::TrainState state{.mesh = mesh,
                          .policy = {model, std::move(loaded.weights), storage, mesh, base},
                          .reference = train::no_reference(),
                          .optimizer = nullptr,
                          .schedule = {asked.value("lr", 1e-3), asked.value("warmup_steps", 2)},
                          .loss = loss,
                          .pass = pass,
                          .microbatches = asked.value("microbatches", 1),
                          .max_gradient_norm = asked.value("max_grad_norm", 1.0)};
  if (uses_reference(loss))
    state.reference =
        train::live_reference({base ? *base : shard::LocalModel(model, load(computed).weights, mesh), pass});
  const auto optimizer = config::find_choice<config::Optimizer>(asked.value("optimizer", "AdamW"));
  state.optimizer = optim::make_optimizer(optimizer.value(), state.policy.trained());
  return state;
}

// Gathers the parts of all ranks as float32 on the CPU.
model::Weights whole(const model::TensorTable& table, const model::Weights& parts, const shard::Mesh& mesh) {
  const at::NoGradGuard no_grad;
  const model::Layout layout = mesh.layout();
  model::Weights all = model::make_weights(table, at::kFloat, at::kCPU);
  for (std::size_t b = 0; b < table.blocks.size(); ++b) {
    const model::BlockWeights& part = parts.blocks[b];
    const at::Tensor exact = part.rest.defined() ? ops::joined(part.flat, part.rest) : part.flat;
    const at::Tensor own = exact.to(at::kCPU, at::kFloat);
    for (const model::Piece& piece : model::pieces_of(table.blocks[b], layout)) {
      const bool repeated = !table.blocks[b].tensors[piece.tensor].split && layout.tensor_rank > 0;
      if (repeated || mesh.replica->rank() > 0) continue;
      all.blocks[b]
          .tensors[piece.tensor]
          .tensor.view({-1})
          .narrow(0, piece.from, piece.count)
          .copy_(own.narrow(0, piece.to, piece.count));
    }
    const at::Tensor there = all.blocks[b].flat.to(mesh.device);
    mesh.all->all_reduce(there).wait();
    all.blocks[b].flat.copy_(there);
  }
  return all;
}

class Answer {
 public:
  void add(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor data = tensor.detach().to(at::kCPU, at::kFloat).clone();
    sources_.push_back({name, checkpoint::Dtype::F32, data.sizes().vec(), [data] {
                          return std::span(static_cast<const std::byte*>(data.const_data_ptr()),
                                           static_cast<std::size_t>(data.nbytes()));
                        }});
  }

  void add(const std::string& prefix, const model::TensorTable& table, const model::Weights& weights) {
    for (std::size_t b = 0; b < table.blocks.size(); ++b)
      for (std::size_t t = 0; t < table.blocks[b].tensors.size(); ++t)
        add(prefix + table.blocks[b].tensors[t].name, weights.blocks[b].tensors[t].tensor);
  }

  void write(const std::filesystem::path& path) { checkpoint::write_safetensors(path, std::move(sources_)); }

 private:
  std::vector<checkpoint::TensorToWrite> sources_;
};

void run_case(const json& asked, const std::vector<train::ExampleBatch>& batches, const comm::World& world,
              const std::filesystem::path& folder) {
  const auto degree = [&](const char* name) { return asked.at("mesh").value(name, std::int64_t{1}); };
  const at::Device device(asked.value("device", "cpu"));
  const shard::Mesh mesh =
      shard::make_mesh(world, {degree("replica"), degree("shard"), degree("tensor")}, device);
  train::TrainState state = make_train_state(asked, mesh);
  const model::TensorTable& table = state.policy.model().trained;
  Answer answer;
  const data::Forest forest = data::make_forest(batches.front().examples);
  answer.add("logits", model::all_logits(state.policy.model(), state.policy.store(),
                                         model::make_batch(forest, state.policy.model().config.shape, device,
                                                           {.all_tokens = true})));
  state.policy.store().end_pass();
  const train::UpdateResult first = train::compute_gradients(state, batches.front());
  answer.add("gradient.", table, whole(table, state.policy.gradients(), mesh));
  answer.add("norm", at::tensor({first.gradient_norm}, at::kDouble));
  std::vector<double> losses, scores, norms;
  for (const train::ExampleBatch& batch : batches) {
    const train::UpdateResult result = train::update(state, batch);
    double loss = 0, score = 0;
    for (const train::Record& record : result.records) {
      loss += record.loss;
      score += record.policy.front();
    }
    losses.push_back(loss / static_cast<double>(result.records.size()));
    scores.push_back(score / static_cast<double>(result.records.size()));
    norms.push_back(result.gradient_norm);
  }
  answer.add("losses", at::tensor(losses, at::kDouble));
  answer.add("scores", at::tensor(scores, at::kDouble));
  answer.add("norms", at::tensor(norms, at::kDouble));
  answer.add("weight.", table, whole(table, state.policy.stored(), mesh));
  const auto* sharded = dynamic_cast<const shard::ShardedStore*>(&state.policy.store());
  answer.add("gathered",
             at::tensor({sharded ? static_cast<double>(sharded->most_fetched()) : 0.0}, at::kDouble));
  if (world.all->rank() == 0) answer.write(folder / (asked.at("name").get<std::string>() + ".safetensors"));
  world.all->barrier();
}

int answer_request(char** argv) {
  try {
    std::ifstream file(argv[1]);
    const json asked = json::parse(file);
    const comm::World world = comm::connect(comm::read_launch(comm::this_environment()));
    ExampleReader reader;
    std::vector<train::ExampleBatch> batches;
    for (const json& list : asked.at("batches")) {
      batches.push_back({.indices = {}, .examples = reader.read(list)});
      batches.back().indices.resize(list.size());
      std::iota(batches.back().indices.begin(), batches.back().indices.end(), 0u);
    }
    for (const json& one : asked.at("cases")) run_case(one, batches, world, argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) { return argc == 3 ? answer_request(argv) : 2; }
