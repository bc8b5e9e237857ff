#include "run/models.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/shell.h"
#include "base/stop.h"
#include "checkpoint/adapter.h"
#include "config/text.h"
#include "data/tokenizer_folder.h"
#include "model/quantized_block.h"
#include "plan/gather_inputs.h"
#include "run/identity.h"
#include "run/snapshot.h"
#include "shard/adapter.h"
#include "shard/fingerprint.h"
#include "shard/local_model.h"
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

// The frozen model of a run with an adapter, shared by policy and reference.
struct AdaptedModel {
  checkpoint::LoadedModel loaded;  // its weights are in `base`; includes the adapter's table
  shard::LocalModel base;
  std::string fingerprint;  // of the base

  const model::TensorTable& table() const { return loaded.adapter->table; }
};

// Returns model.archive if it is an adapter.
std::optional<fs::path> adapter_archive(const config::RunConfig& config) {
  if (!config.model.archive || !checkpoint::is_adapter(*config.model.archive)) return std::nullopt;
  return *config.model.archive;
}

// Merges an adapter into the weights, for a run that trains all weights. The sum is computed in float32 and
// rounded once. Returns the fingerprints of both parts, because that of the sum would depend on the device.
std::string merge_archive(checkpoint::LoadedModel& loaded, const fs::path& adapter, at::ScalarType type,
                          at::Device device) {
  const checkpoint::AdapterInfo info = checkpoint::open_adapter(adapter, loaded.table);
  model::Weights weights = model::make_weights(info.table, at::kFloat, device);
  checkpoint::read_adapter(adapter, info, weights);
  std::string fingerprint = shard::fingerprint_of(loaded.table, loaded.weights, {}) +
                            shard::fingerprint_of(info.table, weights, {});
  model::merge_adapter(loaded.weights, weights);
  for (std::size_t i = 0; i < loaded.table.blocks.size(); ++i)
    loaded.weights.blocks[i] =
        model::block_views(loaded.weights.blocks[i].flat.to(type), loaded.table.blocks[i], {});
  return fingerprint;
}

// Returns the folder of `model.archive`: the path itself, or our own checkpoint's if the path is the
// original's CHECKPOINT/policy.pt. Returns nullopt for a file.
std::optional<fs::path> archive_folder(const fs::path& archive) {
  if (fs::is_directory(archive)) return archive;
  if (!fs::exists(archive) && archive.filename() == "policy.pt" && is_complete(archive.parent_path()))
    return archive.parent_path();
  return std::nullopt;
}

// The weights that a run without its own adapter starts from, and the fingerprint of the parts that they were
// merged from (empty if not merged).
struct Initial {
  checkpoint::LoadedModel loaded;
  std::string merged_from = {};
};

Initial load_initial(const config::RunConfig& config, at::ScalarType type, at::Device device,
                     const model::Layout& layout, const train::Listener& listener) {
  const auto load = [&](const std::string& name, at::ScalarType as, const std::optional<fs::path>& file) {
    return checkpoint::load_model(name, as, device, file, progress_to(listener, "reading weights"), layout);
  };
  const std::string& own = config.model.name_or_path;
  if (!config.model.archive) return {load(own, type, std::nullopt)};
  if (const auto adapter = adapter_archive(config)) {
    if (layout.tensor_ranks > 1 || layout.shard_ranks > 1)
      throw UserError(fmt::format(
          "model.archive={0} is an adapter: adapter=lora trains it further; to train all weights over "
          "several ranks, merge it first ({1}) and use model.name_or_path=OUT",
          adapter->string(), shell_command({"dpo", "merge", own, adapter->string(), "OUT"})));
    Initial initial{load(own, at::kFloat, std::nullopt)};
    initial.merged_from = merge_archive(initial.loaded, *adapter, type, device);
    return initial;
  }
  if (const auto folder = archive_folder(*config.model.archive))
    return {load(folder->string(), type, std::nullopt)};
  return {load(own, type, *config.model.archive)};
}

// Returns the base model of a trained adapter, in the form that the adapter's config names it.
std::string base_of(const config::RunConfig& config, const std::optional<fs::path>& checkpoint) {
  const std::string own = checkpoint::base_name(config.model.name_or_path);
  if (!config.model.archive || adapter_archive(config)) return own;
  // When a run is resumed, an archive that was an adapter may be gone, or its link may point elsewhere.
  if (checkpoint)
    if (const std::string base = checkpoint::read_adapter_config(*checkpoint).base;
        base == own || fs::is_directory(base))
      return base;
  const fs::path archive = *config.model.archive;
  if (const auto folder = archive_folder(archive)) return checkpoint::base_name(folder->string());
  if (!fs::exists(archive))
    throw UserError(fmt::format("model.archive: there is no file or folder {}", archive.string()));
  throw UserError(plan::file_under_adapter(config));
}

// Loads this rank's shard of a model. A process with several devices spreads the blocks over them.
checkpoint::LoadedModel load_local(const shard::Mesh& mesh, std::span<const at::Device> devices,
                                   const std::function<checkpoint::LoadedModel(at::Device)>& load) {
  if (devices.size() == 1) return load(mesh.device);
  checkpoint::LoadedModel loaded = load(at::kCPU);
  loaded.weights = shard::to_devices(loaded.table, loaded.weights, shard::spread_over(loaded.table, devices));
  return loaded;
}

// Throws if a token is outside the vocabulary, because a GPU does not report an out-of-bounds embedding read.
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

using Tensors = std::map<std::string, model::TensorInfo>;

Tensors tensors_of(const model::TensorTable& table) {
  Tensors tensors;
  for (const model::Block& block : table.blocks)
    for (const model::TensorInfo& tensor : block.tensors) tensors.emplace(tensor.name, tensor);
  return tensors;
}

// Returns the first difference between the adapter found and the one that the keys describe, or "".
std::string difference(const Tensors& found, const Tensors& wanted) {
  for (const auto& [name, tensor] : found) {
    const auto same = wanted.find(name);
    if (same == wanted.end()) return fmt::format("it has {}, which this run would not train", name);
    if (tensor.shape != same->second.shape)
      return fmt::format("{} is [{}], not [{}]", name, fmt::join(tensor.shape, ", "),
                         fmt::join(same->second.shape, ", "));
    if (tensor.scale != same->second.scale)
      return fmt::format("the scale of {} is {:g}, not {:g}", name, tensor.scale, same->second.scale);
  }
  for (const auto& [name, tensor] : wanted)
    if (!found.contains(name)) return fmt::format("it has no {}", name);
  return "";
}

// Formats an adapter's settings as keys, which cannot express everything that PEFT can.
std::string keys_of(const model::AdapterSettings& settings) {
  const auto listed = [](const std::vector<std::string>& names) {
    return names.empty() ? "[]" : fmt::format("[\"{}\"]", fmt::join(names, "\",\""));
  };
  const auto mapped = [](const auto& patterns) {
    std::vector<std::string> parts;
    for (const auto& [pattern, value] : patterns) parts.push_back(fmt::format("\"{}\": {}", pattern, value));
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  };
  return shell_command(
      {fmt::format("adapter.r={}", settings.r), fmt::format("adapter.alpha={}", settings.alpha),
       "adapter.targets=" + listed(settings.targets), fmt::format("adapter.rslora={}", settings.rslora),
       fmt::format("adapter.dora={}", settings.dora),
       "adapter.modules_to_save=" + listed(settings.modules_to_save),
       "adapter.rank_pattern=" + mapped(settings.rank_pattern),
       "adapter.alpha_pattern=" + mapped(settings.alpha_pattern)});
}

// Opens the adapter in a folder. Throws a UserError unless it has the tensors that the keys describe.
checkpoint::AdapterInfo open_adapter(const fs::path& folder, const model::TensorTable& model,
                                     const config::RunConfig& config) {
  checkpoint::AdapterInfo found = checkpoint::open_adapter(folder, model);
  const model::TensorTable wanted = model::adapter_table(model, plan::adapter_settings(config.adapter));
  const std::string other = difference(tensors_of(found.table), tensors_of(wanted));
  if (!other.empty())
    throw UserError(fmt::format(
        "{} is an adapter with other settings than this run's: {}. Try its own, {}; or merge it ({}), and "
        "use model.name_or_path=OUT",
        folder.string(), other, keys_of(found.config.settings),
        shell_command(
            {"dpo", "merge", checkpoint::base_name(config.model.name_or_path), folder.string(), "OUT"})));
  return found;
}

model::Weights read_adapter(const AdaptedModel& adapted, const fs::path& folder,
                            const config::RunConfig& config, at::ScalarType type, const shard::Mesh& mesh) {
  const checkpoint::AdapterInfo found = open_adapter(folder, adapted.loaded.table, config);
  model::Weights weights = shard::zeros_like(found.table, adapted.base.weights(), type, mesh.layout());
  checkpoint::read_adapter(folder, found, weights, mesh.layout());
  return weights;
}

// Returns the base, or the base with the adapter that the run started from.
FrozenModel reference_of(const AdaptedModel& adapted, const config::RunConfig& config,
                         const shard::Mesh& mesh) {
  const model::PassOptions pass = train::pass_options(config);
  const auto archive = adapter_archive(config);
  // Only a resumed run can reach this point without its archive.
  if (config.model.archive && !fs::exists(*config.model.archive) &&
      adapted.loaded.adapter->config.base == checkpoint::base_name(config.model.name_or_path))
    throw UserError(fmt::format(
        "model.archive: there is no folder {}; the reference is the adapter that the run started from",
        *config.model.archive));
  // The fingerprint covers the values in the files, which the run may round, so the dtype is appended.
  const bool rounds = config.adapter.base_dtype && !adapted.loaded.config.settings.quantization;
  const std::string base = adapted.fingerprint + (rounds ? "-" + name_of(*config.adapter.base_dtype) : "");
  if (!archive) return {{adapted.base, pass}, base};
  model::Weights adapter = read_adapter(adapted, *archive, config, train::reference_dtype(config), mesh);
  std::string fingerprint = base + shard::fingerprint_of(adapted.table(), adapter, mesh);
  const model::Model model = model::make_model(adapted.loaded.config, adapted.table());
  const config::Reshard reshard = train::storage_of(config, mesh).reshard_frozen;
  return {{{model, adapted.base, std::move(adapter), mesh, reshard}, pass}, std::move(fingerprint)};
}

// Returns nullopt without an adapter.
std::optional<AdaptedModel> load_base(const RunData& data, const std::optional<fs::path>& checkpoint,
                                      const shard::Mesh& mesh, std::span<const at::Device> devices,
                                      const train::Listener& listener) {
  const config::RunConfig& config = data.config;
  if (config.adapter.name == config::Adapter::none) return std::nullopt;
  const std::string name = base_of(config, checkpoint);
  shard::Fingerprint before(mesh);  // over the weights before quantization
  checkpoint::BlockCallback each_block;
  const std::optional<ops::QuantizedDtype> dtype_of_base = train::base_dtype(config);
  if (dtype_of_base)
    each_block = [&](const model::Block& block, const model::BlockWeights& weights,
                     const model::StoredMatrices& stored) {
      before.add_whole(block, weights.flat);
      return model::quantize(weights, block, *dtype_of_base, mesh.layout(), stored);
    };
  checkpoint::LoadedModel loaded = load_local(mesh, devices, [&](at::Device device) {
    return checkpoint::load_model(name, train::reference_dtype(config), device, std::nullopt,
                                  progress_to(listener, "reading weights"),
                                  dtype_of_base ? model::Layout{} : mesh.layout(), each_block);
  });
  check_vocabulary(data, loaded);
  std::string fingerprint =
      dtype_of_base ? before.text() : shard::fingerprint_of(loaded.table, loaded.weights, mesh);
  if (const auto adapter = adapter_archive(config); adapter && is_complete(*adapter))
    check_base(read_run_state(*adapter).identity, loaded.config, fingerprint, config, *adapter);
  const model::AdapterSettings settings = plan::adapter_settings(config.adapter);
  loaded.adapter = checkpoint::AdapterInfo{{settings, name}, model::adapter_table(loaded.table, settings)};
  const shard::LocalModel base =
      shard::frozen_base(loaded.config, std::exchange(loaded.weights, {}), loaded.adapter->table, mesh,
                         train::storage_of(config, mesh).reshard_frozen);
  return AdaptedModel{std::move(loaded), base, std::move(fingerprint)};
}

// Loads the reference of a run without an adapter. One that is scored once before training keeps no gathered
// blocks, for which the plan has no memory.
FrozenModel load_reference(const RunData& data, const shard::Mesh& mesh, std::span<const at::Device> devices,
                           const train::Listener& listener) {
  std::string fingerprint;
  checkpoint::LoadedModel loaded = load_local(mesh, devices, [&](at::Device device) {
    Initial initial =
        load_initial(data.config, train::reference_dtype(data.config), device, mesh.layout(), listener);
    fingerprint = std::move(initial.merged_from);
    return std::move(initial.loaded);
  });
  check_vocabulary(data, loaded);
  if (fingerprint.empty()) fingerprint = shard::fingerprint_of(loaded.table, loaded.weights, mesh);
  const config::Reshard reshard = data.plan.reference == plan::ReferenceMode::live
                                      ? train::storage_of(data.config, mesh).reshard_frozen
                                      : config::Reshard::pass;
  return {{{model::make_model(loaded.config), std::move(loaded.weights), mesh, reshard},
           train::pass_options(data.config)},
          std::move(fingerprint)};
}

// Loads the model that is trained, for a run without an adapter.
checkpoint::LoadedModel load_whole_policy(const RunData& data, const std::optional<fs::path>& checkpoint,
                                          const shard::Mesh& mesh, std::span<const at::Device> devices,
                                          const train::Listener& listener) {
  const at::ScalarType stored = train::scalar_type_of(data.config.model.policy_dtype);
  checkpoint::LoadedModel loaded = load_local(mesh, devices, [&](at::Device device) {
    return checkpoint ? checkpoint::load_model(checkpoint->string(), stored, device, {},
                                               progress_to(listener, "reading weights"), mesh.layout())
                      : load_initial(data.config, stored, device, mesh.layout(), listener).loaded;
  });
  check_vocabulary(data, loaded);
  return loaded;
}

// Returns the adapter to train: from the checkpoint, from model.archive, or a new one.
model::Weights initial_adapter(const AdaptedModel& adapted, const std::optional<fs::path>& checkpoint,
                               const config::RunConfig& config, const shard::Mesh& mesh) {
  const at::ScalarType stored = train::scalar_type_of(config.model.policy_dtype);
  const std::optional<fs::path> from = checkpoint ? checkpoint : adapter_archive(config);
  if (from) return read_adapter(adapted, *from, config, stored, mesh);
  return shard::new_adapter(adapted.table(), adapted.base, stored, static_cast<std::uint64_t>(config.seed),
                            mesh);
}

// Moves the weights into a policy.
TrainedModel trained(checkpoint::LoadedModel loaded, const config::RunConfig& config,
                     const shard::Mesh& mesh) {
  train::Policy policy =
      train::make_policy(config, mesh, model::make_model(loaded.config), std::exchange(loaded.weights, {}));
  return {std::move(loaded), std::move(policy)};
}

// Makes a policy of the adapter over its base.
TrainedModel trained(const AdaptedModel& adapted, model::Weights adapter, const config::RunConfig& config,
                     const shard::Mesh& mesh) {
  return {adapted.loaded,
          train::make_policy(config, mesh, model::make_model(adapted.loaded.config, adapted.table()),
                             std::move(adapter), adapted.base)};
}

}  // namespace

void check_archive(const config::RunConfig& config, const std::optional<fs::path>& checkpoint,
                   const train::Listener& listener) {
  const auto adapter = adapter_archive(config);
  if (!adapter) return;
  const std::string note = checkpoint::check_base(*adapter, checkpoint::read_adapter_config(*adapter).base,
                                                  config.model.name_or_path, "model.name_or_path");
  if (!note.empty()) listener.say("note: " + note);
  if (!checkpoint && config.adapter.name != config::Adapter::none)
    open_adapter(*adapter, checkpoint::open_model(config.model.name_or_path).table, config);
}

void verify_start(const config::RunConfig& config) {
  std::vector<fs::path> folders = {config.model.name_or_path};
  if (config.model.archive) {
    const fs::path archive = *config.model.archive;
    folders.push_back(archive_folder(archive).value_or(archive.parent_path()));
  }
  for (const fs::path& folder : folders)
    if (is_complete(folder)) verify_weights(folder);
}

Models load_models(const RunData& data, const std::optional<fs::path>& checkpoint, const shard::Mesh& mesh,
                   std::span<const at::Device> devices, const train::Listener& listener) {
  const config::RunConfig& config = data.config;
  const std::optional<AdaptedModel> adapted = load_base(data, checkpoint, mesh, devices, listener);
  Models models;
  if (adapted) {
    models.identity = identity_of_base(adapted->fingerprint);
    models.identity.merge(identity_of_architecture(adapted->loaded.config));
  }
  if (data.plan.reference != plan::ReferenceMode::none) {
    models.reference =
        adapted ? reference_of(*adapted, config, mesh) : load_reference(data, mesh, devices, listener);
    models.identity.merge(identity_of_reference(models.reference->fingerprint));
    models.identity.merge(identity_of_architecture(models.reference->model.local.model().config));
  }
  models.load_policy = [&data, &config, &checkpoint, &mesh, devices, &listener, adapted] {
    return adapted ? trained(*adapted, initial_adapter(*adapted, checkpoint, config, mesh), config, mesh)
                   : trained(load_whole_policy(data, checkpoint, mesh, devices, listener), config, mesh);
  };
  return models;
}

}  // namespace dpo::run
