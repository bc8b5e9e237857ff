#include "run/setup.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/read_tensors.h"
#include "comm/group.h"
#include "comm/sockets.h"
#include "data/chat_files.h"
#include "data/end_of_turn.h"
#include "data/tokenizer_folder.h"
#include "ops/devices.h"
#include "plan/gather_inputs.h"
#include "run/best.h"
#include "run/identity.h"
#include "run/models.h"
#include "train/records.h"
#include "train/reference_cache.h"
#include "train/train_state.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

// `said` holds the notes that were already printed, because both splits may come from the same files.
data::Examples load_split(const config::RunConfig& config, data::Split split,
                          const text::Tokenizer& tokenizer, const train::Listener& listener,
                          std::set<std::string>& said) {
  data::TokenCache cache;
  cache.folder = plan::folder_of_user(config) / "tokens";
  cache.progress = [&](const std::string& source, std::int64_t done, std::int64_t all) {
    progress_to(listener, "tokenizing " + source, "prompts")(done, all);
  };
  data::Examples examples = data::Examples::load(config, split, tokenizer, cache);
  for (const std::string& note : cache.notes)
    if (said.insert(note).second) listener.say("note: " + note);
  return examples;
}

// Sets the tokens that end a response. For conversations, also sets the end of a turn and the chat template.
void add_ends(RunData& data) {
  data.ends = {data::end_of_text(data.tokenizer)};
  if (!data.train.has_chats() && !(data.test && data.test->has_chats())) return;
  const data::ChatTokenizer chat(data.config, data.tokenizer);
  data.answer_ends = data::answer_ends(chat, data.tokenizer);
  data.ends = data.answer_ends->tokens;
  data.template_files = text::files_of(chat.chat_template());
}

// Loads all data on every rank. Rank 0 tokenizes; ranks that see its disk read its token cache.
RunData load_data(const plan::Plan& plan, const shard::Mesh& mesh, const train::Listener& listener) {
  const config::RunConfig& config = plan.resolved;
  text::Tokenizer tokenizer = text::Tokenizer::load(data::tokenizer_folder(config));
  if (mesh.all->rank() != 0) mesh.all->barrier();
  std::set<std::string> said;
  data::Examples train = load_split(config, data::Split::Train, tokenizer, listener, said);
  std::optional<data::Examples> test;
  if (config.eval_every) test = load_split(config, data::Split::Test, tokenizer, listener, said);
  if (mesh.all->rank() == 0) mesh.all->barrier();
  mesh.all->barrier();  // ranks that do not see rank 0's disk tokenize now, perhaps for hours
  std::vector<train::Indices> training = train::training_batches(train, config);
  std::vector<train::ExampleBatch> evaluation;
  if (test) {
    const std::string note = data::evaluation_note(*test, config);
    if (!note.empty()) listener.say("note: " + note);
    for (const train::Indices& indices : train::evaluation_batches(*test, config))
      evaluation.push_back(train::batch_of(*test, data::Split::Test, indices));
  }
  RunData data{plan,
               config,
               plan.timing.sampled,
               std::move(tokenizer),
               std::move(train),
               std::move(test),
               std::move(training),
               std::move(evaluation),
               {},
               {},
               {}};
  add_ends(data);
  const std::string unused = data::unused_template_note(config, !data.template_files.empty());
  if (!unused.empty()) listener.say("note: " + unused);
  return data;
}

// Throws if the ranks differ, because machines may have different files under the same name.
void check_same_on_ranks(const Identity& own, comm::Group& all) {
  std::string text;
  for (const auto& [key, value] : own) text += fmt::format("{}: {}\n", key, value);
  const std::string first = comm::broadcast_text(all, text, 0);
  if (first == text) return;
  const std::size_t at = std::ranges::mismatch(first, text).in1 - first.begin();
  const std::size_t begin = at == 0 ? 0 : first.rfind('\n', at - 1) + 1;
  const auto line = [begin](const std::string& of) { return of.substr(begin, of.find('\n', begin) - begin); };
  throw UserError(
      fmt::format("{} has other files than rank 0, or another configuration: here '{}', there '{}'",
                  comm::host_name(), line(text), line(first)));
}

void say_notes(const std::vector<std::string>& notes, const train::Listener& listener) {
  for (const std::string& note : notes) listener.say("note: " + note);
}

// Returns the state of the checkpoint, or of a new run. The reference's identity is not known yet.
RunState initial_run_state(const RunData& data, const std::optional<fs::path>& checkpoint,
                           const shard::Mesh& mesh, const train::Listener& listener) {
  const auto updates = static_cast<std::int64_t>(data.training.size());
  const Identity now = identity_of(data.config, data.tokenizer.fingerprint(), data.train, updates);
  check_same_on_ranks(now, *mesh.all);
  RunState run_state;
  if (checkpoint) {
    if (mesh.all->rank() == 0) verify_checkpoint(*checkpoint);  // reads every file, so one rank does it
    mesh.all->barrier();  // verifying may take longer than the timeout of other collectives
    run_state = read_run_state(*checkpoint);
    // An earlier version did not record the model's config.json, but a full checkpoint contains it.
    if (fs::exists(*checkpoint / "config.json"))
      run_state.identity.merge(identity_of_architecture(checkpoint::read_config(*checkpoint)));
    say_notes(check_identity(run_state.identity, now, *checkpoint), listener);
  }
  if (run_state.updates > updates)
    throw UserError(fmt::format(
        "resume: {} is at update {}, but with the current n_epochs and n_examples the run has only {}; try "
        "larger ones",
        checkpoint->string(), run_state.updates, updates));
  for (const auto& [key, value] : now) run_state.identity[key] = value;
  return run_state;
}

// Compares the loaded models with the checkpoint and with those of the other ranks.
void check_models(const Identity& now, const std::optional<fs::path>& checkpoint, const shard::Mesh& mesh,
                  const train::Listener& listener, RunState& run_state) {
  mesh.all->barrier();  // weights may come from disks of different speeds
  check_same_on_ranks(now, *mesh.all);
  if (checkpoint) say_notes(check_identity(run_state.identity, now, *checkpoint), listener);
  for (const auto& [key, value] : now) run_state.identity[key] = value;
}

// Creates the reference and draws its samples if it is cached, because a cached reference keeps only its
// scores and not the model.
std::unique_ptr<train::Reference> make_reference(std::optional<FrozenModel> frozen, const RunData& data,
                                                 const shard::Mesh& mesh, const train::Listener& listener,
                                                 std::vector<Sample>& samples) {
  if (!frozen) return train::no_reference();
  const config::RunConfig& config = data.config;
  train::ReferenceModel& reference = frozen->model;
  if (data.plan.reference == plan::ReferenceMode::live)
    return train::live_reference(train::placed(std::move(reference), config, mesh));
  const auto on_step = [&](std::int64_t done, std::int64_t all) {
    if (train::any_rank_asked_to_stop(mesh)) throw train::StoppedEarly("while sampling from the reference");
    listener.progress("sampling from the reference", done, all, "tokens at most");
  };
  samples = draw_samples(reference.local.model(), reference.local.store(), data.evaluation, data.tokenizer,
                         data.ends, config, data.sampled, *mesh.all, on_step);
  return train::cached_reference(train::find_or_compute_scores(
      plan::folder_of_user(config) / "references", reference, mesh, data.train, data.test,
      data.tokenizer.fingerprint(), frozen->fingerprint, config, listener));
}

// Sets the checkpoint files with which other programs can chat with the model as it was trained.
void set_other_files(checkpoint::LoadedModel& loaded, const RunData& data) {
  if (data.config.model.tokenizer_name_or_path) checkpoint::use_tokenizer(loaded, data.tokenizer.folder());
  if (!data.answer_ends) return;
  // The model's own templates may include one for tools, which the chosen template replaces too.
  std::erase_if(loaded.other_files,
                [](const auto& file) { return file.first.starts_with("additional_chat_templates/"); });
  for (const auto& [name, text] : data.template_files) loaded.other_files[name] = text;
  std::string& generation = loaded.other_files[text::kGenerationConfig];
  generation = text::with_ends(generation, loaded.config_json, *data.answer_ends);
}

}  // namespace

PreparedRun prepare_run(const plan::Plan& plan, const std::optional<fs::path>& checkpoint,
                        const train::Listener& listener, const comm::World& world,
                        const std::function<void(RunData&)>& on_data) {
  loss::check(plan.resolved.loss);  // before anything is read
  check_archive(plan.resolved, checkpoint, listener);
  const shard::Mesh mesh = train::mesh_of(plan.resolved, world);
  const std::vector<at::Device> devices = train::devices_of(plan.resolved, world);
  if (!checkpoint && mesh.all->rank() == 0) verify_start(plan.resolved);
  RunData data = load_data(plan, mesh, listener);
  on_data(data);
  const config::RunConfig& config = data.config;
  train::check_margins(data.train, config.loss);
  if (data.test) train::check_margins(*data.test, config.loss);
  RunState run_state = initial_run_state(data, checkpoint, mesh, listener);
  begin_comparison(run_state, config, data.evaluation, listener);
  Models models = load_models(data, checkpoint, mesh, devices, listener);
  check_models(models.identity, checkpoint, mesh, listener, run_state);
  std::vector<Sample> samples;
  std::unique_ptr<train::Reference> reference =
      make_reference(std::exchange(models.reference, {}), data, mesh, listener, samples);
  auto [loaded, policy] = models.load_policy();
  check_models(identity_of_architecture(loaded.config), checkpoint, mesh, listener, run_state);
  for (const std::string& note : loaded.notes) listener.say(note);
  set_other_files(loaded, data);
  train::TrainState state = train::make_train_state(config, mesh, std::move(policy), std::move(reference));
  state.schedule.updates = static_cast<std::int64_t>(data.training.size());
  if (checkpoint) {
    read_optimizer(*checkpoint, *state.optimizer, state.policy.model().trained, mesh.layout());
    state.optimizer->set_updates(run_state.updates);
    state.rewards = {run_state.reward_sum, run_state.rewards};
  }
  const auto resumed = checkpoint ? std::optional(run_state.examples) : std::nullopt;
  return {std::move(data),  std::move(samples),   std::move(loaded),
          std::move(state), std::move(run_state), resumed};
}

}  // namespace dpo::run
