// The models that a run loads: what is frozen, and what is trained.
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

// Shows progress. Throws on a signal: so far nothing has been written that would have to be finished.
checkpoint::ProgressCallback progress_to(const train::Listener& listener, const std::string& what,
                                         const std::string& unit = "bytes");

// The frozen model of a run with an adapter, which policy and reference share.
struct AdaptedModel {
  checkpoint::LoadedModel loaded;  // without its weights, with the adapter
  shard::LocalModel base;
  std::string fingerprint;  // of the base

  const model::TensorTable& table() const { return loaded.adapter->table; }
};

// If model.archive is an adapter, it must be of model.name_or_path; if a new run trains it, also what the
// keys describe (`checkpoint`, to resume from, has them in its identity). Reads no weights.
void check_archive(const config::RunConfig& config, const std::optional<std::filesystem::path>& checkpoint,
                   const train::Listener& listener);

// If the run starts from checkpoints of runs, their weights must be as they were written.
void verify_start(const config::RunConfig& config);

// Nullopt without an adapter. `checkpoint`: the one to resume from.
std::optional<AdaptedModel> load_base(const RunData& data,
                                      const std::optional<std::filesystem::path>& checkpoint,
                                      const shard::Mesh& mesh, std::span<const at::Device> devices,
                                      const train::Listener& listener);

// The reference and its fingerprint.
struct FrozenModel {
  train::ReferenceModel model;
  std::string fingerprint;
};

// Nullopt if the loss has none. With an adapter it is the base as it is, or with the adapter that the run
// started from.
std::optional<FrozenModel> load_reference(const RunData& data, const shard::Mesh& mesh,
                                          std::span<const at::Device> devices,
                                          const train::Listener& listener,
                                          const std::optional<AdaptedModel>& adapted);

// The model that is trained, without an adapter: that of the checkpoint, or the one that the run starts from.
checkpoint::LoadedModel load_policy(const RunData& data,
                                    const std::optional<std::filesystem::path>& checkpoint,
                                    const shard::Mesh& mesh, std::span<const at::Device> devices,
                                    const train::Listener& listener);

// The adapter that is trained: that of the checkpoint, of model.archive, or a new one.
model::Weights initial_adapter(const AdaptedModel& adapted,
                               const std::optional<std::filesystem::path>& checkpoint,
                               const config::RunConfig& config, const shard::Mesh& mesh);

}  // namespace dpo::run
