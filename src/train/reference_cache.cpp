#include "train/reference_cache.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/output_files.h"
#include "base/sha256.h"
#include "comm/group.h"
#include "model/spec/description.h"
#include "train/batches.h"
#include "train/records.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kSaveEvery{1};
constexpr std::size_t kBatchesToCheck = 2;  // of scores that were read

// The scores of one split in the cache.
struct CacheEntry {
  fs::path file;
  ScoreTable::Key key;
  std::string about;
};

fs::path file_of(const fs::path& folder, const ScoreTable::Key& key) {
  Sha256 sum;
  for (const auto& [name, value] : key) sum.add(name + "=" + value + "\n");
  return folder / (to_hex(sum.finish()).substr(0, 32) + ".safetensors");
}

std::string text_of(const model::Description& description) {
  std::string text;
  for (const auto& [name, value] : description) text += name + "=" + value + "\n";
  return text;
}

// Describes the scores for `dpo cache`.
std::string about(const config::RunConfig& config, data::Split split) {
  return fmt::format("{} of {}, scored by {}{}", split == data::Split::Train ? "train" : "test",
                     fmt::join(config.datasets, ", "), config.model.name_or_path,
                     config.model.archive ? " with " + *config.model.archive : "");
}

// Files of earlier versions have neither the model's config.json in their key nor a checksum.
void note_older(const fs::path& older, const fs::path& file, const Listener& listener) {
  std::error_code none;
  if (fs::exists(older, none) && !fs::exists(file, none))
    listener.say(
        fmt::format("note: {} was written by an older version of dpo, without a checksum, so its reference "
                    "scores are computed again; 'dpo cache' lists and removes such files",
                    older.string()));
}

ScoreTable empty_table(const data::Examples& examples) {
  std::vector<std::int64_t> responses;
  for (std::uint32_t i = 0; i < examples.size(); ++i)
    responses.push_back(static_cast<std::int64_t>(examples.at(i).responses.size()));
  return ScoreTable(responses);
}

// Collects the scores of one split: reads those in the cache file and computes the missing ones.
class Collector {
 public:
  Collector(const ReferenceModel& reference, const shard::Mesh& mesh, Splitting splitting,
            const data::Examples& examples, data::Split split, const Listener& listener)
      : reference_(reference),
        mesh_(mesh),
        splitting_(splitting),
        examples_(examples),
        split_(split),
        listener_(listener),
        table_(empty_table(examples)) {}

  ScoreTable collect(const CacheEntry& entry, const std::vector<Indices>& batches) {
    const fs::path& file = entry.file;
    if (is_first()) read(entry);
    share();
    check(file, batches);
    std::vector<const Indices*> missing;
    for (const Indices& batch : batches)
      if (!is_known(batch)) missing.push_back(&batch);
    if (missing.empty()) {
      listener_.say(fmt::format("reference scores: read from {}", file.string()));
      return std::move(table_);
    }
    Clock::time_point saved = Clock::now();
    for (std::size_t i = 0; i < missing.size(); ++i) {
      if (!is_known(*missing[i])) compute(*missing[i]);  // later epochs have the same examples
      listener_.progress("scoring with the reference", static_cast<std::int64_t>(i + 1),
                         static_cast<std::int64_t>(missing.size()), "batches");
      const bool stop = any_rank_asked_to_stop(mesh_);
      if (!stop && Clock::now() - saved < kSaveEvery) continue;
      save(entry);
      if (stop) throw StoppedEarly("while scoring with the reference; the scores so far are saved");
      saved = Clock::now();
    }
    table_ = save(entry);
    share();
    listener_.say(fmt::format("reference scores: saved in {}", file.string()));
    return std::move(table_);
  }

 private:
  bool is_first() const { return mesh_.all->rank() == 0; }

  // All ranks continue with the scores of the first one, which alone reads and writes the file.
  void share() { table_.set_bytes(comm::broadcast_text(*mesh_.all, table_.bytes(), 0)); }

  void read(const CacheEntry& entry) {
    std::string why;
    std::error_code none;
    if (is_own(entry.file)) {
      table_.read(entry.file, entry.key, why);
      mark_used(entry.file);
    } else if (fs::exists(entry.file, none)) {
      why = "another user's";
    }
    if (!why.empty())
      listener_.say(fmt::format("note: {}: the cached reference scores are {}; computing them again",
                                entry.file.string(), why));
  }

  bool is_known(const Indices& batch) const {
    return std::all_of(batch.begin(), batch.end(),
                       [this](std::uint32_t example) { return table_.knows(example); });
  }

  // Writes the scores on the first rank, together with those that other runs have written meanwhile. The
  // earlier one of two scores stays, so that a resumed run finds the scores that it trained with. Returns the
  // scores that the file has now.
  ScoreTable save(const CacheEntry& entry) const {
    if (!is_first()) return table_;
    make_own_folder(entry.file.parent_path());
    const FileLock lock(lock_of(entry.file), FileLock::Kind::exclusive);
    ScoreTable stored = empty_table(examples_);
    std::string why;
    if (is_own(entry.file)) stored.read(entry.file, entry.key, why);
    stored.add(table_);
    stored.write(entry.file, entry.key, entry.about);
    return stored;
  }

  // Returns the scores of a batch, in its order.
  std::vector<Record> scored(const ExampleBatch& batch) const {
    BatchRecords records(batch);
    const model::Store& store = reference_.local.store();
    Microbatches parts(batch, splitting_, mesh_, reference_.local.model(), store.device(0));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Microbatch& part = parts.at(i);
      const std::vector<double> scores = to_host(reference_.scores(part.packed));
      records.add(part.forest, records_of(part.forest, scores_of(part.forest, scores, scores), {}, batch));
    }
    return records.gather(mesh_);
  }

  void compute(const Indices& indices) {
    const ExampleBatch batch = batch_of(examples_, split_, indices);
    std::vector<double> scores;
    for (const loss::Score& score : unshared_scores(scored(batch))) scores.push_back(score.reference);
    table_.set(unshared_forest(batch), indices, scores);
  }

  // Computes some of the known scores again.
  void check(const fs::path& file, const std::vector<Indices>& batches) const {
    std::size_t checked = 0;
    for (const Indices& indices : batches) {
      if (checked == kBatchesToCheck) return;
      if (!is_known(indices)) continue;
      ++checked;
      const ExampleBatch batch = batch_of(examples_, split_, indices);
      compare(file, table_.of(unshared_forest(batch), indices), unshared_scores(scored(batch)));
    }
  }

  void compare(const fs::path& file, const std::vector<double>& cached,
               const std::vector<loss::Score>& now) const {
    for (std::size_t r = 0; r < now.size(); ++r) {
      const auto& [policy, reference, tokens] = now[r];
      if (std::abs(cached[r] - reference) <= rounding_of(reference, tokens, reference_.matmul_dtype()))
        continue;
      throw UserError(fmt::format(
          "{}: the cached log-probability of a response of {} tokens is {}, but the reference computes {}. "
          "Remove the file to compute all scores again, or use reference=live",
          file.string(), tokens, cached[r], reference));
    }
  }

  const ReferenceModel& reference_;
  const shard::Mesh& mesh_;
  Splitting splitting_;
  const data::Examples& examples_;
  data::Split split_;
  const Listener& listener_;
  ScoreTable table_;
};

}  // namespace

// In float32 the relative error of a sum of log-probabilities is about 1e-6, and ten times that is allowed.
// The log-probability of a token has a random error of some hundredths in 16 bits, and of some tenths in 8
// bits.
double rounding_of(double score, std::int64_t tokens, at::ScalarType dtype) {
  if (dtype == at::kFloat) return 1e-5 * std::max(1.0, std::abs(score));
  return (dtype == at::kFloat8_e4m3fn ? 0.5 : 0.1) *
         std::sqrt(static_cast<double>(std::max<std::int64_t>(1, tokens)));
}

CachedScores find_or_compute_scores(const fs::path& folder, const ReferenceModel& reference,
                                    const shard::Mesh& mesh, const data::Examples& train,
                                    const std::optional<data::Examples>& test, const std::string& tokenizer,
                                    const std::string& fingerprint, const config::RunConfig& config,
                                    const Listener& listener) {
  if (mesh.all->rank() == 0) make_own_folder(folder);  // fails now rather than after hours of scoring
  const ScoreTable::Key common{{"weights", fingerprint},
                               {"precision", c10::toString(reference.matmul_dtype())},
                               {"tokenizer", tokenizer}};
  const auto scores_of = [&](const data::Examples& examples, data::Split split,
                             const std::vector<Indices>& batches) {
    ScoreTable::Key key = common;
    key["examples"] = data::digest_of(examples);
    const fs::path older = file_of(folder, key);
    key["config.json"] = text_of(model::describe(reference.local.model().config));
    note_older(older, file_of(folder, key), listener);
    const Splitting splitting{.microbatches = config.gradient_accumulation_steps,
                              .has_balance_loss = config.model.router_aux_loss_coef.has_value()};
    return Collector(reference, mesh, splitting, examples, split, listener)
        .collect({file_of(folder, key), key, about(config, split)}, batches);
  };
  return {scores_of(train, data::Split::Train, training_batches(train, config)),
          test ? scores_of(*test, data::Split::Test, evaluation_batches(*test, config)) : ScoreTable()};
}

}  // namespace dpo::train
