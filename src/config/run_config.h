// config describes a run: the schema of all keys, their composition from presets, files and the command line,
// and the typed result that all other code reads.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/choices.h"

namespace dpo::config {

struct ModelConfig {
  std::string name_or_path;
  std::optional<std::string> tokenizer_name_or_path;
  std::optional<std::string> archive;
  std::optional<std::string> block_name;
  Dtype policy_dtype = Dtype::float32;
  std::optional<Dtype> fsdp_policy_mp;
  std::optional<Dtype> reference_dtype;
  std::optional<double> router_aux_loss_coef;
};

struct LossConfig {
  Loss name = Loss::sft;
  double beta = 0;
  double label_smoothing = 0;
  bool reference_free = false;
  Divergence divergence = Divergence::reverse_kl;
  bool length_normalize = false;
  double gamma = 0;
  double alpha = 0;
  double length_alpha = 1;
  double temperature = 0;
  double desirable_weight = 1;
  double undesirable_weight = 1;
};

// LoRA settings with the meaning of those in PEFT's LoraConfig.
struct AdapterConfig {
  Adapter name = Adapter::none;
  std::int64_t r = 0;
  double alpha = 0;
  double dropout = 0;
  std::vector<std::string> targets;
  bool rslora = false;
  bool dora = false;
  std::vector<std::string> modules_to_save;
  std::map<std::string, std::int64_t> rank_pattern;
  std::map<std::string, double> alpha_pattern;
  bool merge_on_save = false;
  std::optional<BaseDtype> base_dtype;
};

// Layers whose activations are recomputed in the backward pass: a fixed number, all, or as few as the plan
// needs.
struct RecomputedLayers {
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max(), kAutomatic = -1;
  std::int64_t count = 0;

  bool is_automatic() const { return count == kAutomatic; }
  bool operator==(const RecomputedLayers&) const = default;
};

// Number of ranks that share the work in each way; null lets the trainer decide.
struct MeshConfig {
  std::optional<std::int64_t> replica;
  std::optional<std::int64_t> shard;
  std::optional<std::int64_t> tensor;
};

struct WandbConfig {
  bool enabled = false;
  std::optional<std::string> entity;
  std::string project;
};

struct MlflowConfig {
  std::optional<std::string> tracking_uri;
  std::optional<std::string> experiment;
};

struct PackageConfig {  // of a tracker that has no other keys
  bool enabled = false;
};

struct DatasetPaths {
  std::optional<std::string> hh;
  std::optional<std::string> shp;
  std::optional<std::string> se;
};

struct DataConfig {
  std::map<std::string, std::string> columns;  // maps our column names to those in the file
  std::map<std::string, double> weights;       // by data set name, as in `datasets`
  std::map<std::string, std::int64_t> limits;  // by data set name
  std::optional<double> test_share;
  TrainOn train_on = TrainOn::assistant;
  bool keep_system = true;
  std::optional<std::string> tools;
  BadRowPolicy on_error = BadRowPolicy::fail;
  BadExamplePolicy eos_in_text = BadExamplePolicy::drop;
  BadExamplePolicy empty_response = BadExamplePolicy::drop;
  BadExamplePolicy equal_responses = BadExamplePolicy::drop;
  BadExamplePolicy no_room = BadExamplePolicy::drop;
};

struct PlanConfig {
  bool strict = false;
  std::optional<std::string> lengths;
};

// Every key of a run. Defaults, help and checks are in schema.cpp.
struct RunConfig {
  Defaults defaults = Defaults::original;
  std::int64_t seed = 0;
  std::int64_t data_seed = 0;
  std::string exp_name;
  std::int64_t batch_size = 0;
  std::int64_t eval_batch_size = 0;
  bool debug = false;
  std::optional<std::int64_t> fsdp_port;
  std::vector<std::string> datasets;
  std::vector<std::string> local_dirs;
  std::optional<std::string> local_run_dir;
  Sampling sample_during_eval = Sampling::automatic;
  std::int64_t n_eval_model_samples = 0;
  bool do_first_eval = false;
  double lr = 0;
  std::int64_t gradient_accumulation_steps = 0;
  std::optional<double> max_grad_norm;
  std::int64_t max_length = 0;
  std::int64_t max_prompt_length = 0;
  std::optional<std::string> chat_template;
  std::map<std::string, std::string> chat_template_kwargs;  // YAML scalars by name
  std::optional<std::int64_t> n_epochs;
  std::optional<std::int64_t> n_examples;
  std::int64_t n_eval_examples = 0;
  Trainer trainer = Trainer::Basic;
  MeshConfig mesh;
  Accumulation fsdp_accumulate = Accumulation::sharded;
  Dtype fsdp_reduce_dtype = Dtype::float32;
  std::optional<Reshard> fsdp_reshard;
  std::int64_t rank_timeout_secs = 0;
  Optimizer optimizer = Optimizer::RMSprop;
  std::optional<std::vector<double>> optimizer_betas;
  std::optional<double> optimizer_eps;
  std::optional<OptimizerState> optimizer_state;
  Offload offload = Offload::none;
  std::optional<double> weight_decay;
  std::int64_t warmup_steps = 0;
  Schedule lr_schedule = Schedule::constant;
  RecomputedLayers activation_checkpointing;
  bool fp8 = false;
  std::optional<std::int64_t> eval_every;
  std::optional<std::int64_t> save_every;
  double minimum_log_interval_secs = 0;
  bool tensorboard = false;
  std::optional<std::string> resume;
  bool overwrite = false;
  std::optional<std::int64_t> keep_last;
  std::optional<BestMetric> best_metric;
  ReferenceScoring reference = ReferenceScoring::automatic;
  ModelConfig model;
  LossConfig loss;
  AdapterConfig adapter;
  WandbConfig wandb;
  MlflowConfig mlflow;
  PackageConfig trackio, swanlab;
  PlanConfig plan;
  DatasetPaths dataset_paths;
  DataConfig data;
};

}  // namespace dpo::config
