#include "plan/unused_keys.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/defaults.h"
#include "plan/inputs.h"

namespace dpo::plan {
namespace {

// Keys that do nothing if a condition holds.
struct IdleKeys {
  std::vector<const char*> keys;
  bool applies;
  std::string reason;
};

bool is_named(const config::RunConfig& run, const char* dataset) {
  return std::ranges::find(run.datasets, dataset) != run.datasets.end();
}

// Returns the keys that may do nothing. It omits settings of losses, optimizers and adapters that do not have
// them, since those are errors (config/read.cpp).
std::vector<IdleKeys> idle_keys(const config::RunConfig& run, const DataFacts& data) {
  using config::Trainer;
  const bool is_basic = run.trainer == Trainer::Basic;
  const bool tracks_mlflow = run.mlflow.tracking_uri || std::getenv("MLFLOW_TRACKING_URI");
  const std::string other_data = "not in datasets";
  return {
      {{"chat_template", "chat_template_kwargs", "data.train_on", "data.keep_system", "data.tools"},
       data.has_chats == false,
       "the data is plain text"},
      {{"data.test_share"}, data.splits_by_hash == false, "the data has its own test split"},
      {{"dataset_paths.hh"}, !is_named(run, "hh"), other_data},
      {{"dataset_paths.shp"}, !is_named(run, "shp"), other_data},
      {{"dataset_paths.se"}, !is_named(run, "se"), other_data},
      {{"data.equal_responses"}, !is_preference(run.loss), "loss=sft takes one response"},
      {{"reference", "model.reference_dtype"},
       !uses_reference(run.loss),
       run.loss.reference_free ? "loss.reference_free=true"
                               : fmt::format("loss={} has no reference", name_of(run.loss.name))},
      {{"eval_batch_size", "n_eval_examples", "n_eval_model_samples"}, !run.eval_every, "eval_every=null"},
      {{"n_eval_model_samples"},
       run.sample_during_eval != config::Sampling::whole,
       "sample_during_eval=" + name_of(run.sample_during_eval)},
      {{"save_every", "keep_last", "best_metric", "wandb.entity", "wandb.project", "mlflow.tracking_uri",
        "mlflow.experiment", "trackio.enabled", "swanlab.enabled"},
       run.debug,
       "debug=true saves and sends nothing"},
      {{"wandb.entity"}, !run.wandb.enabled, "wandb.enabled=false"},
      {{"wandb.project"},
       !run.wandb.enabled && !run.trackio.enabled && !run.swanlab.enabled,
       "wandb.enabled=false"},
      {{"mlflow.experiment"}, !tracks_mlflow, "no mlflow.tracking_uri"},
      // fsdp_reduce_dtype is not here: a run that is resumed must have the same, so removing it has an
      // effect.
      {{"fsdp_port", "fsdp_accumulate", "fsdp_reshard", "rank_timeout_secs"},
       is_basic,
       "trainer=BasicTrainer is one process"},
      {{"fsdp_accumulate", "fsdp_reshard"},
       run.trainer == Trainer::TensorParallel && run.mesh.shard.value_or(1) == 1,
       "trainer=TensorParallelTrainer does not shard without mesh.shard"},
  };
}

}  // namespace

std::string unused_keys_note(const config::Resolved& resolved, const DataFacts& data) {
  std::vector<std::string> parts, named;
  for (const IdleKeys& idle : idle_keys(resolved.values, data)) {
    std::vector<std::string> keys;
    for (const std::string key : idle.keys)
      if (idle.applies && config::is_changed(resolved, key) && std::ranges::find(named, key) == named.end())
        keys.push_back(key);
    if (keys.empty()) continue;
    named.insert(named.end(), keys.begin(), keys.end());
    parts.push_back(fmt::format("{} ({})", fmt::join(keys, ", "), idle.reason));
  }
  return parts.empty() ? "" : fmt::format("keys without effect on this run: {}", fmt::join(parts, "; "));
}

}  // namespace dpo::plan
