// Loads the frozen and the trained models of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/load.h"
#include "run/setup.h"
#include "shard/local_model.h"
#include "train/events.h"
#include "train/reference.h"

namespace dpo::run {

// Returns a callback that reports progress. It throws on a signal, because nothing has been written yet that
// would have to be finished.
checkpoint::ProgressCallback progress_to(const train::Listener& listener, const std::string& what,
                                         const std::string& unit = "bytes");

// The frozen model of a run with an adapter, shared by policy and reference.
struct AdaptedModel {
  checkpoint::LoadedModel loaded;  // its weights are in `base`; includes the adapter's table
  shard::LocalModel base;
  std::string fingerprint;  // of the base

  const model::TensorTable& table() const { return loaded.adapter->table; }
};

// Throws a UserError unless an adapter in model.archive fits model.name_or_path and, if a new run trains it,
// the adapter keys. When resuming from `checkpoint`, its identity covers the keys. Reads no weights.
void check_archive(const config::RunConfig& config, const std::optional<std::filesystem::path>& checkpoint,
                   const train::Listener& listener);

// Verifies the weights that the run starts from against their markers, if they come from checkpoints of runs.
void verify_start(const config::RunConfig& config);

// Returns nullopt without an adapter. `checkpoint` is the one to resume from.
std::optional<AdaptedModel> load_base(const RunData& data,
                                      const std::optional<std::filesystem::path>& checkpoint,
                                      const shard::Mesh& mesh, std::span<const at::Device> devices,
                                      const train::Listener& listener);

// A reference model and its fingerprint.
struct FrozenModel {
  train::ReferenceModel model;
  std::string fingerprint;
};

// Returns nullopt if the loss has no reference. For a run with an adapter the reference is the base, or the
// base with the adapter that the run started from.
std::optional<FrozenModel> load_reference(const RunData& data, const shard::Mesh& mesh,
                                          std::span<const at::Device> devices,
                                          const train::Listener& listener,
                                          const std::optional<AdaptedModel>& adapted);

// Loads the model that is trained, for a run without an adapter: from the checkpoint, or the one that the run
// starts from.
checkpoint::LoadedModel load_policy(const RunData& data,
                                    const std::optional<std::filesystem::path>& checkpoint,
                                    const shard::Mesh& mesh, std::span<const at::Device> devices,
                                    const train::Listener& listener);

// Returns the adapter to train: from the checkpoint, from model.archive, or a new one.
model::Weights initial_adapter(const AdaptedModel& adapted,
                               const std::optional<std::filesystem::path>& checkpoint,
                               const config::RunConfig& config, const shard::Mesh& mesh);

}  // namespace dpo::run
