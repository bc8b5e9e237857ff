#include "run/models.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/stop.h"
#include "checkpoint/adapter.h"
#include "config/text.h"
#include "data/tokenizer_folder.h"
#include "run/snapshot.h"
#include "shard/adapter.h"
#include "shard/fingerprint.h"
#include "train/train_state.h"

namespace dpo::run {

namespace fs = std::filesystem;

checkpoint::ProgressCallback progress_to(const train::Listener& listener, const std::string& what,
                                         const std::string& unit) {
  return [&listener, what, unit](std::int64_t done, std::int64_t all) {
    if (stop_requested()) throw dpo::Stopped();
    listener.progress(what, done, all, unit);
  };
}

namespace {

// model.archive, if it is an adapter.
std::optional<fs::path> adapter_archive(const config::RunConfig& config) {
  if (!config.model.archive || !checkpoint::is_adapter(*config.model.archive)) return std::nullopt;
  return *config.model.archive;
}

// A run that trains all weights starts from those with the adapter merged into them.
void merge_archive(checkpoint::LoadedModel& loaded, const fs::path& adapter, const std::string& base,
                   at::Device device, const model::Layout& layout) {
  if (layout.tensor_ranks > 1 || layout.shard_ranks > 1)
    throw UserError(fmt::format(
        "model.archive={0} is an adapter: adapter=lora trains it further; to train all weights over several "
        "ranks, merge it first (dpo merge {1} {0} OUT) and use model.archive=OUT",
        adapter.string(), base));
  model::merge_adapter(loaded.weights, checkpoint::load_adapter(adapter, loaded.table, at::kFloat, device));
}

// The weights that a new run starts from, without the adapter that it trains. `model.archive` may be a file,
// a model folder, or the original's path CHECKPOINT/policy.pt, which stands for the folder if the checkpoint
// is ours.
checkpoint::LoadedModel load_initial(const config::RunConfig& config, at::ScalarType type, at::Device device,
                                     const model::Layout& layout, const train::Listener& listener) {
  const auto progress = progress_to(listener, "reading weights");
  const std::string& own = config.model.name_or_path;
  const auto adapter = adapter_archive(config);
  if (!config.model.archive || adapter) {
    checkpoint::LoadedModel loaded =
        checkpoint::load_model(own, type, device, std::nullopt, progress, layout);
    if (adapter && config.adapter.name == config::Adapter::none)
      merge_archive(loaded, *adapter, own, device, layout);
    return loaded;
  }
  const fs::path archive = *config.model.archive;
  if (fs::is_directory(archive))
    return checkpoint::load_model(archive.string(), type, device, std::nullopt, progress, layout);
  if (!fs::exists(archive) && archive.filename() == "policy.pt" && is_complete(archive.parent_path()))
    return checkpoint::load_model(archive.parent_path().string(), type, device, std::nullopt, progress,
                                  layout);
  return checkpoint::load_model(own, type, device, archive, progress, layout);
}

// Loads this rank's shard of a model; a process with several devices spreads the blocks over them.
checkpoint::LoadedModel load_local(const shard::Mesh& mesh, std::span<const at::Device> devices,
                                   const std::function<checkpoint::LoadedModel(at::Device)>& load) {
  if (devices.size() == 1) return load(mesh.device);
  checkpoint::LoadedModel loaded = load(at::kCPU);
  loaded.weights = shard::to_devices(loaded.table, loaded.weights, shard::spread_over(loaded.table, devices));
  return loaded;
}

// On a GPU nothing reports an embedding that is read out of bounds.
void check_vocabulary(const RunData& data, const checkpoint::LoadedModel& model) {
  const std::int64_t known = model.config.shape.vocabulary;
  const auto check = [&](std::span<const data::Token> tokens) {
    const auto largest = std::ranges::max_element(tokens);
    if (largest != tokens.end() && *largest >= known)
      throw UserError(
          fmt::format("the data has token {} ('{}'), but the model has only {} tokens (vocab_size in the "
                      "config.json of {}): the tokenizer in {} belongs to another model",
                      *largest, config::shown(data.tokenizer.token_of(*largest)), known,
                      model.folder.string(), data::tokenizer_folder(data.config).string()));
  };
  for (const data::Examples* examples : {&data.train, data.test ? &*data.test : nullptr})
    for (std::uint32_t i = 0; examples && i < examples->size(); ++i) {
      const data::Example example = examples->at(i);
      check(example.prompt);
      for (const std::span<const data::Token> response : example.responses) check(response);
    }
}

bool is_same_adapter(const model::TensorTable& one, const model::TensorTable& other) {
  const auto is_same = [](const model::TensorInfo& a, const model::TensorInfo& b) {
    return a.name == b.name && a.shape == b.shape && a.scale == b.scale;
  };
  for (std::size_t i = 0; i < one.blocks.size(); ++i)
    if (!std::ranges::equal(one.blocks[i].tensors, other.blocks[i].tensors, is_same)) return false;
  return true;
}

// The weights of the adapter in a folder, which must have the tensors that the keys describe.
model::Weights read_adapter(const AdaptedModel& adapted, const fs::path& folder, at::ScalarType type,
                            const shard::Mesh& mesh) {
  const checkpoint::AdapterInfo found = checkpoint::open_adapter(folder, adapted.loaded.table);
  if (!is_same_adapter(found.table, adapted.table())) {
    const model::AdapterSettings& its = found.config.settings;
    throw UserError(fmt::format(
        "{} is an adapter with other settings than this run's. Its own: adapter.r={} adapter.alpha={} "
        "adapter.targets=[{}] adapter.rslora={} adapter.dora={} adapter.modules_to_save=[{}], {} patterns",
        folder.string(), its.r, its.alpha, fmt::join(its.targets, ","), its.rslora, its.dora,
        fmt::join(its.modules_to_save, ","), its.rank_pattern.size() + its.alpha_pattern.size()));
  }
  model::Weights weights = shard::zeros_like(found.table, adapted.base.weights(), type, mesh.layout());
  checkpoint::read_adapter(folder, found, weights, mesh.layout());
  return weights;
}

// The base as it is, or with the adapter that the run started from.
FrozenModel reference_of(const AdaptedModel& adapted, const config::RunConfig& config,
                         const shard::Mesh& mesh) {
  const model::PassOptions pass = train::pass_options(config);
  const auto archive = adapter_archive(config);
  if (!archive) return {{adapted.base, pass}, adapted.fingerprint};
  model::Weights adapter = read_adapter(adapted, *archive, train::reference_dtype(config), mesh);
  std::string fingerprint = adapted.fingerprint + shard::fingerprint_of(adapted.table(), adapter, mesh);
  const model::Model model = model::make_model(adapted.loaded.config, adapted.table());
  return {{{model, adapted.base, std::move(adapter), mesh}, pass}, std::move(fingerprint)};
}

}  // namespace

std::optional<AdaptedModel> load_base(const RunData& data, const shard::Mesh& mesh,
                                      std::span<const at::Device> devices, const train::Listener& listener) {
  const config::RunConfig& config = data.config;
  if (config.adapter.name == config::Adapter::none) return std::nullopt;
  checkpoint::LoadedModel loaded = load_local(mesh, devices, [&](at::Device device) {
    return load_initial(config, train::reference_dtype(config), device, mesh.layout(), listener);
  });
  check_vocabulary(data, loaded);
  std::string fingerprint = shard::fingerprint_of(loaded.table, loaded.weights, mesh);
  const shard::LocalModel base(model::make_model(loaded.config), std::exchange(loaded.weights, {}), mesh);
  const model::AdapterSettings settings = plan::adapter_settings(config.adapter);
  const bool is_own = !config.model.archive || adapter_archive(config);
  loaded.adapter =
      checkpoint::AdapterInfo{{settings, is_own ? config.model.name_or_path : *config.model.archive},
                              model::adapter_table(loaded.table, settings)};
  return AdaptedModel{std::move(loaded), base, std::move(fingerprint)};
}

std::optional<FrozenModel> load_reference(const RunData& data, const shard::Mesh& mesh,
                                          std::span<const at::Device> devices,
                                          const train::Listener& listener,
                                          const std::optional<AdaptedModel>& adapted) {
  if (data.plan.reference == plan::ReferenceMode::none) return std::nullopt;
  if (adapted) return reference_of(*adapted, data.config, mesh);
  checkpoint::LoadedModel loaded = load_local(mesh, devices, [&](at::Device device) {
    return load_initial(data.config, train::reference_dtype(data.config), device, mesh.layout(), listener);
  });
  check_vocabulary(data, loaded);
  std::string fingerprint = shard::fingerprint_of(loaded.table, loaded.weights, mesh);
  return FrozenModel{
      {{model::make_model(loaded.config), std::move(loaded.weights), mesh}, train::pass_options(data.config)},
      std::move(fingerprint)};
}

checkpoint::LoadedModel load_policy(const RunData& data, const std::optional<fs::path>& checkpoint,
                                    const shard::Mesh& mesh, std::span<const at::Device> devices,
                                    const train::Listener& listener) {
  const at::ScalarType stored = train::precision_of(data.config, mesh).stored;
  checkpoint::LoadedModel loaded = load_local(mesh, devices, [&](at::Device device) {
    return checkpoint ? checkpoint::load_model(checkpoint->string(), stored, device, {},
                                               progress_to(listener, "reading weights"), mesh.layout())
                      : load_initial(data.config, stored, device, mesh.layout(), listener);
  });
  check_vocabulary(data, loaded);
  return loaded;
}

model::Weights initial_adapter(const AdaptedModel& adapted, const std::optional<fs::path>& checkpoint,
                               const config::RunConfig& config, const shard::Mesh& mesh) {
  const at::ScalarType stored = train::precision_of(config, mesh).stored;
  const std::optional<fs::path> from = checkpoint ? checkpoint : adapter_archive(config);
  if (from) return read_adapter(adapted, *from, stored, mesh);
  return shard::new_adapter(adapted.table(), adapted.base, stored, static_cast<std::uint64_t>(config.seed),
                            mesh);
}

}  // namespace dpo::run
