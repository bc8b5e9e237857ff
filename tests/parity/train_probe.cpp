// Runs updates on batches of tokens from a test, and writes the results.
//
//   train_probe MODEL REQUEST.json ANSWER.safetensors
//
// The request: {"batches": [[example...]...], "loss": {...}, "optimizer",
// "lr", "warmup_steps", "max_grad_norm", "microbatches", "stored", "computed", "recompute", "adapter": a PEFT
// folder to start from, whose base is the reference; "reference_adapter": one of the reference}. The answer:
// "losses", "chosen", "rejected" (rewards, means over the batch's good and bad responses), "norms" by update,
// and "weight.NAME" of what was trained at the end.
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>

#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>

#include "checkpoint/adapter.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/load.h"
#include "config/losses.h"
#include "read_examples.h"
#include "train/update.h"

namespace {

using namespace dpo;
using nlohmann::json;

config::Dtype type_named(const std::string& name) { return *config::find_choice<config::Dtype>(name); }

config::LossConfig read_loss(const json& asked) {
  config::LossConfig options;
  options.name = config::find_choice<config::Loss>(asked.at("name").get<std::string>()).value();
  options.beta = asked.value("beta", 0.1);
  options.label_smoothing = asked.value("label_smoothing", 0.0);
  options.reference_free = asked.value("reference_free", false);
  options.desirable_weight = asked.value("desirable_weight", 1.0);
  options.undesirable_weight = asked.value("undesirable_weight", 1.0);
  return options;
}

// Returns a model with the adapter of a folder, over `base`.
model::Model with_adapter(const model::Model& model, const std::string& folder) {
  return model::make_model(model.config, checkpoint::open_adapter(folder, model.table).table);
}

train::TrainState make_train_state(const char* folder, const json& asked) {
  const config::Storage storage{.stored = type_named(asked.value("stored", "float32")),
                                .computed = type_named(asked.value("computed", "float32"))};
  const at::ScalarType stored = train::scalar_type_of(storage.stored);
  const at::ScalarType computed = train::scalar_type_of(storage.computed);
  const std::string adapter = asked.value("adapter", ""), frozen = asked.value("reference_adapter", "");
  checkpoint::LoadedModel loaded =
      checkpoint::load_model(folder, adapter.empty() ? stored : computed, at::kCPU);
  model::Model model = model::make_model(loaded.config);
  std::optional<shard::LocalModel> base;
  if (!adapter.empty()) {
    base.emplace(model, std::move(loaded.weights), shard::Mesh{});
    loaded.weights = checkpoint::load_adapter(adapter, model.table, stored, at::kCPU);
    model = with_adapter(model, adapter);
  }
  model::PassOptions pass;
  pass.recomputed_layers = asked.value("recompute", false) ? model.config.shape.layers : 0;
  const config::LossConfig loss = read_loss(asked.at("loss"));
  train::TrainState state{.mesh = {},
                          .policy = {model, std::move(loaded.weights), storage, {}, base},
                          .reference = train::no_reference(),
                          .optimizer = nullptr,
                          .schedule = {asked.at("lr"), asked.at("warmup_steps")},
                          .loss = loss,
                          .pass = pass,
                          .microbatches = asked.value("microbatches", 1),
                          .max_gradient_norm = asked.at("max_grad_norm")};
  if (uses_reference(loss) && !frozen.empty())
    state.reference =
        train::live_reference({{with_adapter(base->model(), frozen),
                                *base,
                                checkpoint::load_adapter(frozen, base->model().table, computed, at::kCPU),
                                {}},
                               pass});
  else if (uses_reference(loss) && base)
    state.reference = train::live_reference({*base, pass});
  else if (uses_reference(loss))
    state.reference = train::live_reference(
        {{model, checkpoint::load_model(folder, computed, at::kCPU).weights, {}}, pass});
  const auto optimizer = config::find_choice<config::Optimizer>(asked.at("optimizer").get<std::string>());
  state.optimizer = optim::make_optimizer(optimizer.value(), state.policy.trained());
  return state;
}

std::vector<train::ExampleBatch> read_batches(const json& list, ExampleReader& reader) {
  std::vector<train::ExampleBatch> batches;
  for (const json& batch : list) {
    batches.push_back({.indices = {}, .examples = reader.read(batch)});
    batches.back().indices.resize(batch.size());
    std::iota(batches.back().indices.begin(), batches.back().indices.end(), 0u);
  }
  return batches;
}

struct Trajectory {
  std::vector<double> losses, chosen, rejected, norms;

  void add(const train::UpdateResult& result, double beta) {
    train::RunningMean loss, good, bad;
    for (const train::Record& record : result.records) {
      loss.add(record.loss);
      if (record.desirable) good.add(beta * (record.policy[0] - record.reference[0]));
      if (record.policy.size() > 1 || !record.desirable)
        bad.add(beta * (record.policy.back() - record.reference.back()));
    }
    losses.push_back(loss.value());
    chosen.push_back(good.value());
    rejected.push_back(bad.value());
    norms.push_back(result.gradient_norm);
  }
};

void write(const std::filesystem::path& path, const Trajectory& trajectory, const train::Policy& policy) {
  std::vector<checkpoint::TensorToWrite> sources;
  const auto add = [&sources](const std::string& name, const at::Tensor& tensor) {
    const at::Tensor data = tensor.to(at::kFloat).contiguous();
    sources.push_back({name, checkpoint::Dtype::F32, data.sizes().vec(), [data] {
                         return std::span(static_cast<const std::byte*>(data.const_data_ptr()),
                                          static_cast<std::size_t>(data.nbytes()));
                       }});
  };
  add("losses", at::tensor(trajectory.losses, at::kDouble));
  add("chosen", at::tensor(trajectory.chosen, at::kDouble));
  add("rejected", at::tensor(trajectory.rejected, at::kDouble));
  add("norms", at::tensor(trajectory.norms, at::kDouble));
  const model::TensorTable& table = policy.model().trained;
  for (std::size_t b = 0; b < table.blocks.size(); ++b)
    for (std::size_t t = 0; t < table.blocks[b].tensors.size(); ++t)
      add("weight." + table.blocks[b].tensors[t].name, policy.stored().blocks[b].tensors[t].tensor);
  checkpoint::write_safetensors(path, std::move(sources));
}

int answer_request(char** argv) {
  try {
    std::ifstream file(argv[2]);
    const json asked = json::parse(file);
    train::TrainState state = make_train_state(argv[1], asked);
    ExampleReader reader;
    Trajectory trajectory;
    for (const train::ExampleBatch& batch : read_batches(asked.at("batches"), reader))
      trajectory.add(train::update(state, batch), state.loss.beta);
    write(argv[3], trajectory, state.policy);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) { return argc == 4 ? answer_request(argv) : 2; }
