// Loads the frozen and the trained models of a run.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/load.h"
#include "run/identity.h"
#include "run/setup.h"
#include "train/events.h"
#include "train/policy.h"
#include "train/reference.h"

namespace dpo::run {

// Returns a callback that reports progress. It throws on a signal, because nothing has been written yet that
// would have to be finished.
checkpoint::ProgressCallback progress_to(const train::Listener& listener, const std::string& what,
                                         const std::string& unit = "bytes");

// Throws a UserError unless an adapter in model.archive fits model.name_or_path and, if a new run trains it,
// the adapter keys. When resuming from `checkpoint`, its identity covers the keys. Reads no weights.
void check_archive(const config::RunConfig& config, const std::optional<std::filesystem::path>& checkpoint,
                   const train::Listener& listener);

// Verifies the weights that the run starts from against their markers, if they come from checkpoints of runs.
void verify_start(const config::RunConfig& config);

// A reference model and its fingerprint.
struct FrozenModel {
  train::ReferenceModel model;
  std::string fingerprint;
};

// The model that is trained.
struct TrainedModel {
  checkpoint::LoadedModel loaded;  // without its weights, which are in `policy`
  train::Policy policy;
};

struct Models {
  std::optional<FrozenModel> reference;  // nullopt if the loss has none
  Identity identity;                     // what a checkpoint records of the frozen models
  // Loads the policy. A reference that is needed only for its scores should be gone by then, so that it is
  // never in memory together with the policy's gradients and optimizer state.
  std::function<TrainedModel()> load_policy;
};

// Loads the models of a run, from `checkpoint` if it resumes. With an adapter, the reference is the base, or
// the base with the adapter that the run started from. The arguments must outlive the result.
Models load_models(const RunData& data, const std::optional<std::filesystem::path>& checkpoint,
                   const shard::Mesh& mesh, std::span<const at::Device> devices,
                   const train::Listener& listener);

}  // namespace dpo::run
