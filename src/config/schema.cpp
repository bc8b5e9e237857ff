#include "config/schema.h"

#include <algorithm>

#include <fmt/format.h>

#include "config/schema_parts.h"
#include "config/yaml_reader.h"

namespace dpo::config {
namespace {

const std::vector<Dtype> kDtypes = {Dtype::float32, Dtype::bfloat16, Dtype::float16};
constexpr std::int64_t kLargestNumpySeed = 4294967295;
// Far above any real count, and small enough that the product of two counts is exact.
constexpr std::int64_t kLargestCount = 1'000'000'000;

constexpr double kLargestRate = 1e38;  // within float32's range

Check<std::int64_t> count_from(std::int64_t least) { return between(least, kLargestCount); }

Check<std::string> run_name() {
  return {"a name for the run's folder (not empty, no '..', no leading '/' or '~')",
          [](const std::string& value) {
            return text("").holds(value) && value.front() != '/' && value.front() != '~' &&
                   value.find("..") == std::string::npos;
          }};
}

std::vector<Field> run_fields() {
  using R = RunConfig;
  return {
      field(kDefaultsKey, &R::defaults, Effect::none, "original", one_of(all_choices<Defaults>()),
            "Defaults of direct-preference-optimization (original), or of today (modern: AdamW, a linear "
            "schedule, lengths and batch of the data, runs/NAME). The short form, model=FOLDER data=FILE, "
            "chooses modern (docs/training.md)."),
      field("seed", &R::seed, Effect::result, "0", at_least(0),
            "Random seed; the data order has its own, data_seed."),
      field("data_seed", &R::data_seed, Effect::result, "0", between(0, kLargestNumpySeed),
            "Random seed of the data order. direct-preference-optimization always uses 0."),
      field("exp_name", &R::exp_name, Effect::local, "???", run_name(),
            "Name of the experiment: part of the run folder's name."),
      field("batch_size", &R::batch_size, Effect::result, "4", count_from(1),
            "Examples per update across all GPUs. Each GPU works on batch_size / "
            "(gradient_accumulation_steps * GPUs) at a time."),
      field("eval_batch_size", &R::eval_batch_size, Effect::none, "16", count_from(1),
            "Batch size of evaluation and sampling."),
      field("debug", &R::debug, Effect::local, "false", yes_or_no(),
            "For trying things out: no checkpoints are saved."),
      field("fsdp_port", &R::fsdp_port, Effect::local, "null", between(1, 65535),
            "Port on which the processes of a sharded run connect; null: a free one."),
      field("datasets", &R::datasets, Effect::result, "[hh]",
            paths("a list of one or more data sets such as [hh] or [hh, my.jsonl]"),
            "Data sets to train on, mixed together: hh, shp, se, or your own files, folders and Hugging Face "
            "names (docs/data.md)."),
      field("local_dirs", &R::local_dirs, Effect::local, "[/scr-ssd, /scr, .cache]",
            paths("a list of one or more folders"),
            "Runs and caches go into the first of these folders that exists; if none does, the last is "
            "created."),
      field("local_run_dir", &R::local_run_dir, Effect::local, "null", path("a folder"),
            "The run folder; null: LOCAL_DIR/USER/EXP_NAME_TIME."),
      field("sample_during_eval", &R::sample_during_eval, Effect::local, "auto",
            one_of(all_choices<Sampling>()),
            "Generate text after the first update and at every later evaluation. auto: up to 4 texts of up "
            "to 64 "
            "tokens, in at most 5 % of the run's time; true: n_eval_model_samples texts of up to max_length "
            "tokens, however long that takes. Giving n_eval_model_samples means true."),
      field("n_eval_model_samples", &R::n_eval_model_samples, Effect::local, "16", count_from(1),
            "Samples to generate per evaluation, with sample_during_eval=true."),
      field("do_first_eval", &R::do_first_eval, Effect::none, "true", yes_or_no(),
            "Evaluate once before the first update, unless eval_every is null."),
      field("lr", &R::lr, Effect::result, "5e-7", above_to(0, kLargestRate), "Learning rate after warm-up."),
      field("gradient_accumulation_steps", &R::gradient_accumulation_steps, Effect::none, "1", count_from(1),
            "Microbatches per update; more of them need less memory."),
      field("max_grad_norm", &R::max_grad_norm, Effect::result, "10.0", above(0),
            "Clip the global gradient norm to this; null: do not clip, which lets one process with one "
            "microbatch "
            "free gradients block by block (docs/memory.md)."),
      field("max_length", &R::max_length, Effect::result, "512", count_from(1),
            "Maximum tokens of prompt and response together."),
      field("max_prompt_length", &R::max_prompt_length, Effect::result, "256", count_from(1),
            "Maximum tokens of a prompt; applies only where prompt and response exceed max_length."),
      field("chat_template", &R::chat_template, Effect::indirect, "null",
            path("chatml, zephyr, plain, a file, or a name"),
            "Chat template for data sets of conversations: a built-in one (chatml, zephyr, plain), a Jinja "
            "file, "
            "or one of the tokenizer's named templates; null: the tokenizer's own."),
      field("chat_template_kwargs", &R::chat_template_kwargs, Effect::indirect, "{}",
            map_of("a map of variables such as {enable_thinking: false}", text("a name"), text("a value")),
            "Variables for the chat template, for rows that do not set them in a column of this name."),
      field("n_epochs", &R::n_epochs, Effect::indirect, "1", count_from(1),
            "Epochs to train for; null: n_examples decides."),
      field("n_examples", &R::n_examples, Effect::indirect, "null", count_from(1),
            "Examples to train on; null: n_epochs decides. With both, the run ends at the first limit "
            "reached."),
      field("n_eval_examples", &R::n_eval_examples, Effect::none, "256", count_from(1),
            "Examples to evaluate on."),
      field("trainer", &R::trainer, Effect::none, "BasicTrainer", one_of(all_choices<Trainer>()),
            "How GPUs share the work: layers spread over them (BasicTrainer), everything sharded "
            "(FSDPTrainer), or every layer split (TensorParallelTrainer)."),
      field("fsdp_accumulate", &R::fsdp_accumulate, Effect::none, "sharded",
            one_of(all_choices<Accumulation>()),
            "How FSDPTrainer accumulates gradients over microbatches: sharded reduces them after each one; "
            "whole keeps them all, reduces once per update (FSDP's no_sync), and needs more memory."),
      field("fsdp_reduce_dtype", &R::fsdp_reduce_dtype, Effect::result, "float32",
            one_of<Dtype>({Dtype::float32, Dtype::bfloat16}),
            "Dtype in which gradients are summed over ranks."),
      field("fsdp_reshard", &R::fsdp_reshard, Effect::local, "null", one_of(all_choices<Reshard>()),
            "When a rank frees the weights that it gathered: after each pass (pass), after each update "
            "(update; each block is gathered once per update), or never (a frozen model is gathered once per "
            "run); null: the fastest that fits. The results are the same (docs/distributed.md)."),
      field("rank_timeout_secs", &R::rank_timeout_secs, Effect::local, "60", between(1, 86400),
            "Seconds without a heartbeat after which a process counts as failed and the run ends. A process "
            "that "
            "makes no progress ends it after 30 times as long (docs/distributed.md)."),
      field("optimizer", &R::optimizer, Effect::result, "RMSprop", one_of(all_choices<Optimizer>()),
            "Optimizer, with PyTorch's defaults. RMSprop has half the optimizer state of Adam."),
      setting_of(
          {Optimizer::Adam, Optimizer::AdamW},
          field("optimizer_betas", &R::optimizer_betas, Effect::result, "null",
                two_numbers("a list of two numbers >= 0 and < 1 such as [0.9, 0.95]", from_to_below(0, 1)),
                "Decay rates of the running averages of the gradient and of its square; null: PyTorch's "
                "default, [0.9, 0.999].")),
      setting_of({Optimizer::RMSprop, Optimizer::Adam, Optimizer::AdamW},
                 field("optimizer_eps", &R::optimizer_eps, Effect::result, "null", above(0),
                       "Added to the denominator of an update; null: PyTorch's default, 1e-8.")),
      setting_of({Optimizer::RMSprop, Optimizer::Adam, Optimizer::AdamW},
                 field("optimizer_state", &R::optimizer_state, Effect::result, "null",
                       one_of(all_choices<OptimizerState>()),
                       "How the optimizer state is stored: bfloat16 (rounded stochastically) takes half of "
                       "float32, 8bit (blocks of 256 as in bitsandbytes) a quarter; null: model.policy_dtype "
                       "(docs/memory.md).")),
      field("offload", &R::offload, Effect::none, "none", one_of(all_choices<Offload>()),
            "What to keep in host memory while the GPU does not need it: the optimizer state, the reference, "
            "or both. Needs less GPU memory and makes updates slower; the results are the same."),
      field("weight_decay", &R::weight_decay, Effect::result, "null", not_below(0),
            "Weight decay of all parameters, as in PyTorch; null: its default, 0.01 for AdamW and 0 for the "
            "others."),
      field("warmup_steps", &R::warmup_steps, Effect::result, "150", count_from(0),
            "Updates over which the learning rate rises linearly."),
      field(
          "lr_schedule", &R::lr_schedule, Effect::result, "constant", one_of(all_choices<Schedule>()),
          "Learning rate after warm-up: constant, or decaying to 0 at the end of the run (linear, cosine)."),
      field("activation_checkpointing", &R::activation_checkpointing, Effect::local, "false",
            recomputed_layers(),
            "Recompute the activations of all layers (true), of a number of layers, or of as few as the plan "
            "finds necessary (auto) in the backward pass. For all layers, this takes about a third more "
            "compute. The results are the same."),
      field("fp8", &R::fp8, Effect::result, "false", yes_or_no(),
            "Compute the matmuls of layers in 8-bit floats (e4m3) with a scale for each row, in policy and "
            "reference; weight gradients, head and embedding stay in bfloat16. Needs bfloat16, and a GPU of "
            "compute capability 8.9 (Ada, Hopper) or newer. Results differ slightly; 1.2 times as fast on an "
            "H200."),
      field("eval_every", &R::eval_every, Effect::none, "20_000", count_from(1),
            "Examples between evaluations (rounded down to a multiple of batch_size); null: no evaluation, "
            "and no evaluation data is read."),
      field("save_every", &R::save_every, Effect::local, "null", count_from(1),
            "Examples between checkpoints (rounded down to a multiple of batch_size); null: save at every "
            "evaluation but the first. A run also saves at its end."),
      field("minimum_log_interval_secs", &R::minimum_log_interval_secs, Effect::local, "1.0", not_below(0),
            "Minimum seconds between two logged updates."),
      field("tensorboard", &R::tensorboard, Effect::local, "true", yes_or_no(),
            "Write the run to RUN/tensorboard, for 'tensorboard --logdir RUN' (docs/tracking.md)."),
      field("resume", &R::resume, Effect::local, "null", path("a run folder, a checkpoint folder, or auto"),
            "Resume a run from its newest checkpoint, or from the given checkpoint, bit for bit; auto: the "
            "newest run of this exp_name that has a checkpoint, or a new run if there is none."),
      field("overwrite", &R::overwrite, Effect::local, "false", yes_or_no(),
            "Start a new run in a local_run_dir that already contains one; the old one is renamed to "
            "local_run_dir.old-1, and so on."),
      field("keep_last", &R::keep_last, Effect::local, "null", count_from(1),
            "Keep only this many of the newest checkpoints, and the best; null: all."),
      field("best_metric", &R::best_metric, Effect::local, "null", one_of(all_choices<BestMetric>()),
            "Point BEST at the checkpoint with the lowest loss/eval, or with the highest value of one of the "
            "other metrics. If save_every is set, it must be a multiple of eval_every."),
      field("reference", &R::reference, Effect::local, "auto", one_of(all_choices<ReferenceScoring>()),
            "Reference log-probabilities: computed at every update (live), once before training (cached), or "
            "cached if the run has several epochs or would not fit otherwise, else live (auto)."),
  };
}

std::vector<Field> model_fields() {
  using M = ModelConfig;
  constexpr auto kModel = &RunConfig::model;
  return {
      field("model.name_or_path", kModel, &M::name_or_path, Effect::result, "???",
            path("a folder or a Hugging Face name"),
            "The model: a folder, or a name such as EleutherAI/pythia-2.8b."),
      field("model.tokenizer_name_or_path", kModel, &M::tokenizer_name_or_path, Effect::indirect, "null",
            path("a folder or a Hugging Face name"), "The tokenizer; null: the model's own."),
      field("model.archive", kModel, &M::archive, Effect::indirect, "null",
            path("a file or a checkpoint folder"),
            "Weights to start from instead of the model's own, such as those of an SFT run."),
      field("model.block_name", kModel, &M::block_name, Effect::none, "null",
            text("the name of a block class"),
            "Accepted for compatibility with direct-preference-optimization; not used."),
      field("model.policy_dtype", kModel, &M::policy_dtype, Effect::result, "float32", one_of(kDtypes),
            "Dtype of the trained weights and of the optimizer state. float16 is rejected in training: it "
            "would need loss scaling."),
      field("model.fsdp_policy_mp", kModel, &M::fsdp_policy_mp, Effect::result, "null",
            one_of(all_choices<Dtype>()),
            "Dtype to compute in (mixed precision); null: policy_dtype; auto: bfloat16 or float32, whichever "
            "is faster on the run's device."),
      field("model.reference_dtype", kModel, &M::reference_dtype, Effect::result, "null", one_of(kDtypes),
            "Dtype of the reference model; null: the dtype that the policy computes in. "
            "direct-preference-optimization uses float16."),
      field("model.router_aux_loss_coef", kModel, &M::router_aux_loss_coef, Effect::result, "null", above(0),
            "Weight of the routers' balance loss in a mixture of experts; null: no balance loss."),
  };
}

std::vector<Field> mesh_fields() {
  using M = MeshConfig;
  constexpr auto kMesh = &RunConfig::mesh;
  return {
      field("mesh.replica", kMesh, &M::replica, Effect::none, "null", count_from(1),
            "Groups of ranks that each hold the whole model and split the batch, for slow links between "
            "machines (DDP; with mesh.shard, hybrid sharding: HSDP); null: 1."),
      field("mesh.shard", kMesh, &M::shard, Effect::none, "null", count_from(1),
            "Ranks that split parameters, gradients, optimizer state and batch; null: all remaining ranks "
            "for FSDPTrainer, 1 for TensorParallelTrainer."),
      field("mesh.tensor", kMesh, &M::tensor, Effect::none, "null", count_from(1),
            "Ranks that split every layer; null: 1 for FSDPTrainer, all remaining ranks for "
            "TensorParallelTrainer."),
  };
}

// Checks a list of module names or similar texts, with at least `least` entries.
Check<std::vector<std::string>> texts(std::string what, std::size_t least) {
  return {std::move(what), [least](const std::vector<std::string>& values) {
            return values.size() >= least && std::all_of(values.begin(), values.end(), text("").holds);
          }};
}

std::vector<Field> adapter_fields() {
  using A = AdapterConfig;
  constexpr auto kAdapter = &RunConfig::adapter;
  const Check<std::string> module = text("a module");
  return {
      field("adapter.name", kAdapter, &A::name, Effect::result, "none", one_of(all_choices<Adapter>()),
            "Train all weights (none), or a LoRA adapter with the model's weights frozen (lora); choose it "
            "with adapter=NAME (docs/adapters.md)."),
      field("adapter.r", kAdapter, &A::r, Effect::result, "16", between(1, 65536),
            "Rank of the adapter's matrices."),
      field("adapter.alpha", kAdapter, &A::alpha, Effect::result, "32.0", above(0),
            "The adapter's output is multiplied by alpha / r."),
      field("adapter.dropout", kAdapter, &A::dropout, Effect::result, "0.0", from_to_below(0, 1),
            "Dropout of the adapter's input while training."),
      field("adapter.targets", kAdapter, &A::targets, Effect::result, "[all-linear]",
            texts("a list of one or more modules such as [q_proj, v_proj]", 1),
            "Matrices that get an adapter: ends of their names; regular expressions, which match a whole "
            "name; or all-linear, every matrix of the layers (of a mixture of experts: of its attention)."),
      field("adapter.base_dtype", kAdapter, &A::base_dtype, Effect::result, "null",
            one_of(all_choices<BaseDtype>()),
            "Format of the frozen matrices: nf4 (QLoRA's 4 bits), int8 or fp8; null: the dtype of the "
            "computation, or the format of the model's files if bitsandbytes quantized them."),
      field("adapter.rslora", kAdapter, &A::rslora, Effect::result, "false", yes_or_no(),
            "Multiply by alpha / sqrt(r) instead (rank-stabilized LoRA)."),
      field("adapter.dora", kAdapter, &A::dora, Effect::result, "false", yes_or_no(),
            "Also train the norm of each of a matrix's rows (DoRA)."),
      field("adapter.modules_to_save", kAdapter, &A::modules_to_save, Effect::result, "[]",
            texts("a list of modules such as [lm_head]", 0),
            "Modules to train as a whole, in addition to the adapter: ends of their names. They are saved "
            "with it."),
      field("adapter.rank_pattern", kAdapter, &A::rank_pattern, Effect::result, "{}",
            map_of("a map of whole numbers from 1 to 65536 such as {q_proj: 32}", module, between(1, 65536)),
            "Other ranks for some modules: ends of their names, or regular expressions. Those that match one "
            "module must agree."),
      field("adapter.alpha_pattern", kAdapter, &A::alpha_pattern, Effect::result, "{}",
            map_of("a map of numbers > 0 such as {q_proj: 64}", module, above(0)), "The same for alpha."),
      field(
          "adapter.merge_on_save", kAdapter, &A::merge_on_save, Effect::none, "false", yes_or_no(),
          "When the run is complete, also write the whole model, with the adapter merged, to RUN/merged, as "
          "dpo merge does."),
  };
}

std::vector<Field> other_fields() {
  using W = WandbConfig;
  using P = PlanConfig;
  return {
      field("wandb.enabled", &RunConfig::wandb, &W::enabled, Effect::local, "true", yes_or_no(),
            "Send the run to Weights & Biases while it trains, with the package wandb of python3 "
            "(docs/tracking.md). Without a login it becomes an offline run in RUN/wandb, which 'wandb sync' "
            "uploads."),
      field("wandb.entity", &RunConfig::wandb, &W::entity, Effect::local, "null", text("a user or team"),
            "User or team at Weights & Biases; null: the default of whoever is logged in."),
      field("wandb.project", &RunConfig::wandb, &W::project, Effect::local, "direct-preference-optimization",
            text("a project name"), "Project at Weights & Biases, trackio and SwanLab."),
      field(
          "mlflow.tracking_uri", &RunConfig::mlflow, &MlflowConfig::tracking_uri, Effect::local, "null",
          text("the address of an MLflow server, http://HOST:PORT, or a database, sqlite:///FILE"),
          "Send the run there while it trains, with the package mlflow of python3 (docs/tracking.md); null: "
          "to the address in the environment variable MLFLOW_TRACKING_URI, or nowhere if it is not set."),
      field("mlflow.experiment", &RunConfig::mlflow, &MlflowConfig::experiment, Effect::local, "null",
            text("the name of an experiment"),
            "Experiment at the MLflow server; null: that in MLFLOW_EXPERIMENT_NAME, else "
            "direct-preference-optimization."),
      field("trackio.enabled", &RunConfig::trackio, &PackageConfig::enabled, Effect::local, "false",
            yes_or_no(),
            "Send the run to trackio while it trains, with the package trackio of python3 "
            "(docs/tracking.md)."),
      field("swanlab.enabled", &RunConfig::swanlab, &PackageConfig::enabled, Effect::local, "false",
            yes_or_no(),
            "Send the run to SwanLab while it trains, with the package swanlab of python3 "
            "(docs/tracking.md)."),
      field("plan.strict", &RunConfig::plan, &P::strict, Effect::local, "false", yes_or_no(),
            "Treat the plan's warnings as errors."),
      field("plan.lengths", &RunConfig::plan, &P::lengths, Effect::local, "null",
            path("a name in configs/lengths or a file"),
            "Length statistics to plan with; null: counted from the data where it is on this machine, else "
            "the shipped ones."),
  };
}

}  // namespace

const std::vector<Field>& schema() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all = run_fields();
    for (const auto& part :
         {data_fields(), other_fields(), model_fields(), mesh_fields(), loss_fields(), adapter_fields()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return fields;
}

const Field* find_field(std::string_view key) {
  const auto found =
      std::find_if(schema().begin(), schema().end(), [&](const Field& f) { return f.key == key; });
  return found == schema().end() ? nullptr : &*found;
}

std::vector<std::string> all_keys() {
  std::vector<std::string> keys;
  for (const Field& field : schema()) keys.push_back(field.key);
  return keys;
}

const std::vector<std::string>& sections() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = groups();
    all.insert(all.end(), {"mesh", "wandb", "mlflow", "trackio", "swanlab", "plan", "dataset_paths", "data"});
    return all;
  }();
  return names;
}

const std::vector<std::string>& groups() {
  static const std::vector<std::string> names = {"model", "loss", "adapter"};
  return names;
}

bool is_section(std::string_view name) {
  return std::find(sections().begin(), sections().end(), name) != sections().end();
}

bool is_group(std::string_view name) {
  return std::find(groups().begin(), groups().end(), name) != groups().end();
}

Node default_of(const Field& field) {
  Node document = read_default_yaml(fmt::format("{}: {}", field.key, field.default_text));
  return std::move(document.children.front());
}

bool has_default(const RunConfig& config, const Field& field) {
  RunConfig defaults;
  field.read(default_of(field), defaults);
  return equal_values(field.write(config), field.write(defaults));
}

}  // namespace dpo::config
