#include "train/setup.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "base/stop.h"
#include "checkpoint/read_tensors.h"
#include "config/evaluation.h"
#include "config/text.h"
#include "data/tokenizer_folder.h"
#include "ops/devices.h"
#include "plan/surroundings.h"
#include "shard/fingerprint.h"
#include "train/identity.h"
#include "train/reference_cache.h"
#include "train/scoring.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;

at::ScalarType type_named(const std::string& name) {
  return name == "bfloat16" ? at::kBFloat16 : name == "float16" ? at::kHalf : at::kFloat;
}

// A signal ends what has only read so far; nothing has been written that would have to be finished.
checkpoint::ProgressCallback shown_by(const Listener& listener, const std::string& what,
                                      const std::string& unit = "bytes") {
  return [&listener, what, unit](std::int64_t done, std::int64_t all) {
    if (stop_requested()) throw dpo::Stopped();
    listener.progress(what, done, all, unit);
  };
}

// The weights to start from: `model.archive` may be a file, a model folder, or the policy.pt that a
// checkpoint of ours would have if it were the original's.
checkpoint::LoadedModel load_start(const config::RunConfig& config, at::ScalarType type, at::Device device,
                                   const model::Layout& layout, const Listener& listener) {
  const auto progress = shown_by(listener, "reading weights");
  if (!config.model.archive)
    return checkpoint::load_model(config.model.name_or_path, type, device, std::nullopt, progress, layout);
  const fs::path archive = *config.model.archive;
  if (fs::is_directory(archive))
    return checkpoint::load_model(archive.string(), type, device, std::nullopt, progress, layout);
  if (!fs::exists(archive) && archive.filename() == "policy.pt" &&
      fs::exists(archive.parent_path() / "COMPLETE"))
    return checkpoint::load_model(archive.parent_path().string(), type, device, std::nullopt, progress,
                                  layout);
  return checkpoint::load_model(config.model.name_or_path, type, device, archive, progress, layout);
}

// `said`: notes so far; both splits may come from the same files.
data::Examples load_split(const config::RunConfig& config, data::Split split,
                          const text::Tokenizer& tokenizer, const Listener& listener,
                          std::set<std::string>& said) {
  data::TokenCache cache;
  cache.folder = plan::folder_of_user(config) / "tokens";
  cache.progress = [&](const std::string& source, std::int64_t done, std::int64_t all) {
    shown_by(listener, "tokenizing " + source, "prompts")(done, all);
  };
  data::Examples examples = data::Examples::load(config, split, tokenizer, cache);
  for (const std::string& note : cache.notes)
    if (said.insert(note).second) listener.say("note: " + note);
  return examples;
}

optim::Settings optimizer_settings(const config::RunConfig& config) {
  optim::Settings settings{.epsilon = config.optimizer_eps, .weight_decay = config.weight_decay};
  if (config.optimizer_betas)
    settings.betas = std::pair(config.optimizer_betas->at(0), config.optimizer_betas->at(1));
  return settings;
}

// All ranks read all data. The first leaves the tokens for the others that see its disk.
RunData load_data(const plan::Plan& plan, const shard::Mesh& mesh, const Listener& listener) {
  const config::RunConfig& config = plan.resolved;
  text::Tokenizer tokenizer = text::Tokenizer::load(data::tokenizer_folder(config));
  if (mesh.all->rank() != 0) mesh.all->barrier();
  std::set<std::string> said;
  data::Examples train = load_split(config, data::Split::Train, tokenizer, listener, said);
  std::optional<data::Examples> test;
  if (config.eval_every) test = load_split(config, data::Split::Test, tokenizer, listener, said);
  if (mesh.all->rank() == 0) mesh.all->barrier();
  std::vector<Numbers> training = training_batches(train, config);
  std::vector<ExampleBatch> evaluation;
  if (test) {
    const std::string note = config::evaluation_size(config, test->size()).note;
    if (!note.empty()) listener.say("note: " + note);
    for (const Numbers& numbers : evaluation_batches(*test, config))
      evaluation.push_back(batch_of(*test, data::Split::Test, numbers));
  }
  return {plan,
          config,
          std::move(tokenizer),
          std::move(train),
          std::move(test),
          std::move(training),
          std::move(evaluation)};
}

// Where a run begins: at its beginning, or where the checkpoint is. What the reference is, is not known yet.
Progress find_progress(const RunData& data, const std::optional<fs::path>& checkpoint,
                       const shard::Mesh& mesh) {
  const auto updates = static_cast<std::int64_t>(data.training.size());
  const Identity now = identity_of(data.config, data.tokenizer.fingerprint(), data.train, updates);
  Progress progress;
  if (checkpoint) {
    if (mesh.all->rank() == 0) verify_checkpoint(*checkpoint);  // reads all of it; once is enough
    progress = read_progress(*checkpoint);
    check_identity(progress.identity, now, *checkpoint);
  }
  if (progress.updates > updates)
    throw UserError(
        fmt::format("resume: {} is at update {}, and with n_epochs and n_examples as they are now a run "
                    "has only {}; try larger ones",
                    checkpoint->string(), progress.updates, updates));
  for (const auto& [key, value] : now) progress.identity[key] = value;
  return progress;
}

// A model's weights where they are trained: this rank's part, or of one process each block on one of its
// devices.
checkpoint::LoadedModel load_placed(const shard::Mesh& mesh, std::span<const at::Device> devices,
                                    const std::function<checkpoint::LoadedModel(at::Device)>& load) {
  if (devices.size() == 1) return load(mesh.device);
  checkpoint::LoadedModel loaded = load(at::kCPU);
  loaded.weights = shard::moved(loaded.table, loaded.weights, shard::spread_over(loaded.table, devices));
  return loaded;
}

// Embeddings have a row for each of the model's tokens alone, and on a GPU nobody notices who reads beyond.
void check_vocabulary(const RunData& data, const checkpoint::LoadedModel& model) {
  const std::int64_t known = model.config.shape.vocabulary;
  const auto check = [&](std::span<const data::Token> tokens) {
    const auto largest = std::ranges::max_element(tokens);
    if (largest != tokens.end() && *largest >= known)
      throw UserError(fmt::format(
          "the tokenizer gives the data token {} ('{}'), but the model has only {} (vocab_size in the "
          "config.json of {}): the tokenizer in {} is that of another model",
          *largest, config::shown(data.tokenizer.token_of(*largest)), known, model.folder.string(),
          data::tokenizer_folder(data.config).string()));
  };
  for (const data::Examples* examples : {&data.train, data.test ? &*data.test : nullptr})
    for (std::uint32_t i = 0; examples && i < examples->size(); ++i) {
      const data::Example example = examples->at(i);
      check(example.prompt);
      for (const std::span<const data::Token> response : example.responses) check(response);
    }
}

// The frozen model that a preference run starts from.
struct FrozenModel {
  ReferenceModel model;
  std::string fingerprint;
};

std::optional<FrozenModel> load_reference(const RunData& data, const shard::Mesh& mesh,
                                          std::span<const at::Device> devices, const Listener& listener) {
  if (data.plan.reference == plan::Reference::none) return std::nullopt;
  checkpoint::LoadedModel loaded = load_placed(mesh, devices, [&](at::Device device) {
    return load_start(data.config, reference_type(data.config), device, mesh.layout(), listener);
  });
  check_vocabulary(data, loaded);
  std::string fingerprint = shard::fingerprint_of(loaded.table, loaded.weights, mesh);
  return FrozenModel{
      {{model::make_model(loaded.config), std::move(loaded.weights), mesh}, pass_of(data.config)},
      std::move(fingerprint)};
}

// A checkpoint knows which reference its run began with.
void compare_reference(const std::optional<FrozenModel>& reference, const config::RunConfig& config,
                       const std::optional<fs::path>& checkpoint, Progress& progress) {
  const Identity now = reference ? identity_of_reference(checkpoint::name_of_scalar(reference_type(config)),
                                                         reference->fingerprint)
                                 : Identity{};
  if (checkpoint) check_identity(progress.identity, now, *checkpoint);
  for (const auto& [key, value] : now) progress.identity[key] = value;
}

// The reference at work or left behind: a cached one is its scores of the data.
std::unique_ptr<Reference> make_reference(std::optional<FrozenModel> frozen, const RunData& data,
                                          const shard::Mesh& mesh, const Listener& listener,
                                          std::vector<Sample>& samples) {
  if (!frozen) return no_reference();
  const config::RunConfig& config = data.config;
  ReferenceModel& reference = frozen->model;
  if (config.sample_during_eval)
    samples = draw_samples(reference.placed.model(), reference.placed.store(), data.evaluation,
                           data.tokenizer, config, *mesh.all);
  if (data.plan.reference == plan::Reference::live) return live_reference(std::move(reference));
  return cached_reference(find_or_compute_scores(plan::folder_of_user(config) / "references", reference, mesh,
                                                 data.train, data.test, data.tokenizer.fingerprint(),
                                                 frozen->fingerprint, config, listener));
}

}  // namespace

PolicyPrecision precision_of(const config::RunConfig& config, const shard::Mesh& mesh) {
  const at::ScalarType stored = type_named(config.model.policy_dtype);
  const at::ScalarType computed = type_named(config.model.fsdp_policy_mp.value_or(config.model.policy_dtype));
  // Sums over several microbatches or ranks would lose the small ones in 16 bits.
  const bool several = config.gradient_accumulation_steps > 1 || mesh.data->size() > 1;
  return {stored, computed, several ? at::kFloat : computed};
}

std::vector<at::Device> devices_of(const config::RunConfig& config, const comm::World& world) {
  const std::int64_t gpus = gpu_count();
  if (gpus == 0) return {at::kCPU};
  const auto gpu = [](std::int64_t index) {
    return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  };
  if (config.trainer != "BasicTrainer" || world.all->size() > 1) return {gpu(world.local_rank % gpus)};
  std::vector<at::Device> all;
  for (std::int64_t i = 0; i < gpus; ++i) all.push_back(gpu(i));
  return all;
}

shard::Mesh mesh_of(const config::RunConfig& config, const comm::World& world) {
  const at::Device device = devices_of(config, world).front();
  if (device.is_cuda()) use_gpu(device.index());
  return shard::make_mesh(world, config::mesh_of(config, world.all->size()), device);
}

loss::Options loss_options(const config::LossConfig& config) {
  loss::Options options;
  options.name = config.name;
  options.beta = config.beta;
  options.label_smoothing = config.label_smoothing;
  options.reference_free = config.reference_free;
  options.divergence = config.divergence;
  options.length_normalize = config.length_normalize;
  options.gamma = config.gamma;
  options.alpha = config.alpha;
  options.temperature = config.temperature;
  options.desirable_weight = config.desirable_weight;
  options.undesirable_weight = config.undesirable_weight;
  return options;
}

at::ScalarType reference_type(const config::RunConfig& config) {
  const auto& asked = config.model.reference_dtype;
  return type_named(asked ? *asked : config.model.fsdp_policy_mp.value_or(config.model.policy_dtype));
}

model::PassOptions pass_of(const config::RunConfig& config) {
  return {.entropy = false, .recompute = config.activation_checkpointing};
}

Trainee make_trainee(const config::RunConfig& config, const shard::Mesh& mesh, const model::Model& model,
                     model::Weights weights, std::unique_ptr<Reference> reference) {
  const shard::GradientOptions reduction{type_named(config.fsdp_reduce_dtype),
                                         config.fsdp_accumulate == "whole"};
  Trainee trainee{.mesh = mesh,
                  .policy = {model, std::move(weights), precision_of(config, mesh), mesh, reduction},
                  .reference = std::move(reference),
                  .optimizer = nullptr,
                  .schedule = {config.lr, config.warmup_steps, config.lr_schedule},
                  .loss = loss_options(config.loss),
                  .pass = pass_of(config),
                  .microbatches = config.gradient_accumulation_steps,
                  .max_gradient_norm = config.max_grad_norm,
                  .seed = static_cast<std::uint64_t>(config.seed),
                  .max_length = static_cast<std::size_t>(config.max_length)};
  trainee.optimizer =
      optim::make_optimizer(config.optimizer, trainee.policy.stored(), optimizer_settings(config));
  return trainee;
}

Prepared prepare(const plan::Plan& plan, const std::optional<fs::path>& checkpoint, const Listener& listener,
                 const comm::World& world, const std::function<void(const RunData&)>& look) {
  const config::RunConfig& config = plan.resolved;
  loss::evaluate(loss_options(config.loss), {}, {});  // an impossible option is said before anything is read
  const shard::Mesh mesh = mesh_of(config, world);
  const std::vector<at::Device> devices = devices_of(config, world);
  RunData data = load_data(plan, mesh, listener);
  look(data);
  check_margins(data.train, loss_options(config.loss));
  if (data.test) check_margins(*data.test, loss_options(config.loss));
  Progress progress = find_progress(data, checkpoint, mesh);
  // Before the policy, so that a reference that is only needed for its scores is never in memory together
  // with the policy's gradients and the optimizer.
  std::vector<Sample> samples;
  std::optional<FrozenModel> frozen = load_reference(data, mesh, devices, listener);
  compare_reference(frozen, config, checkpoint, progress);
  std::unique_ptr<Reference> reference = make_reference(std::move(frozen), data, mesh, listener, samples);
  checkpoint::LoadedModel loaded = load_placed(mesh, devices, [&](at::Device device) {
    const at::ScalarType stored = precision_of(config, mesh).stored;
    return checkpoint ? checkpoint::load_model(checkpoint->string(), stored, device, {},
                                               shown_by(listener, "reading weights"), mesh.layout())
                      : load_start(config, stored, device, mesh.layout(), listener);
  });
  for (const std::string& note : loaded.notes) listener.say(note);
  check_vocabulary(data, loaded);
  Trainee trainee = make_trainee(config, mesh, model::make_model(loaded.config), std::move(loaded.weights),
                                 std::move(reference));
  loaded.weights = {};
  trainee.schedule.updates = static_cast<std::int64_t>(data.training.size());
  if (checkpoint) {
    read_optimizer(*checkpoint, *trainee.optimizer, loaded.table, mesh.layout());
    trainee.optimizer->set_updates(progress.updates);
    trainee.rewards = {progress.reward_sum, progress.rewards};
  }
  const auto resumed = checkpoint ? std::optional(progress.examples) : std::nullopt;
  return {std::move(data),    std::move(samples),  std::move(loaded),
          std::move(trainee), std::move(progress), resumed};
}

}  // namespace dpo::train
