#include "train/reference_cache.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/sha256.h"
#include "comm/group.h"
#include "train/batches.h"
#include "train/records.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kSaveEvery{1};
constexpr std::size_t kBatchesToCheck = 2;  // of scores that were read

fs::path file_of(const fs::path& folder, const ScoreTable::Key& key) {
  Sha256 sum;
  for (const auto& [name, value] : key) sum.add(name + "=" + value + "\n");
  return folder / (to_hex(sum.finish()).substr(0, 32) + ".safetensors");
}

ScoreTable empty_table(const data::Examples& examples) {
  std::vector<std::int64_t> responses;
  for (std::uint32_t i = 0; i < examples.size(); ++i)
    responses.push_back(static_cast<std::int64_t>(examples.at(i).responses.size()));
  return ScoreTable(responses);
}

// Fills the table of one split from a file and the model.
class Collector {
 public:
  Collector(const ReferenceModel& reference, const shard::Mesh& mesh, std::int64_t microbatches,
            const data::Examples& examples, data::Split split, const Listener& listener)
      : reference_(reference),
        mesh_(mesh),
        microbatches_(microbatches),
        examples_(examples),
        split_(split),
        listener_(listener),
        table_(empty_table(examples)) {}

  ScoreTable collect(const fs::path& file, const ScoreTable::Key& key, const std::vector<Indices>& batches) {
    if (is_same_on_all_ranks(file)) {
      table_.read(file, key);
      check(file, batches);
    }
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
      save(file, key);
      if (stop) throw StoppedEarly("while scoring with the reference; the scores so far are saved");
      saved = Clock::now();
    }
    save(file, key);
    listener_.say(fmt::format("reference scores: saved in {}", file.string()));
    return std::move(table_);
  }

 private:
  // A file that only some ranks see is ignored: all must have the same scores left to compute.
  bool is_same_on_all_ranks(const fs::path& file) const {
    const std::string own = is_own(file) ? to_hex(sha256_of_file(file)) : "";
    const std::vector<std::string> seen = comm::gather_texts(*mesh_.all, own);
    return !own.empty() && std::ranges::count(seen, own) == std::ssize(seen);
  }

  bool is_known(const Indices& batch) const {
    return std::all_of(batch.begin(), batch.end(),
                       [this](std::uint32_t example) { return table_.knows(example); });
  }

  // All ranks have the same scores; one writes them.
  void save(const fs::path& file, const ScoreTable::Key& key) const {
    if (mesh_.all->rank() == 0) table_.write(file, key);
  }

  // The scores of a batch, in its order.
  std::vector<Record> scored(const ExampleBatch& batch) const {
    BatchRecords records(batch);
    const model::Store& store = reference_.local.store();
    Microbatches parts(batch, microbatches_, mesh_, reference_.local.model().config.shape, store.device(0));
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
      if (std::abs(cached[r] - reference) <= rounding_of(reference, tokens, reference_.product_dtype()))
        continue;
      throw UserError(fmt::format(
          "{}: the cached log-probability of a response of {} tokens is {}, but the reference computes {}. "
          "Remove the file to compute all scores again, or use reference=live",
          file.string(), tokens, cached[r], reference));
    }
  }

  const ReferenceModel& reference_;
  const shard::Mesh& mesh_;
  std::int64_t microbatches_;
  const data::Examples& examples_;
  data::Split split_;
  const Listener& listener_;
  ScoreTable table_;
};

}  // namespace

// In float32 the relative error of a sum of log-probabilities is about 1e-6; in 16 bits each token's has a
// random error of some hundredths, in 8 bits of some tenths.
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
  ScoreTable::Key key{{"weights", fingerprint},
                      {"precision", c10::toString(reference.product_dtype())},
                      {"tokenizer", tokenizer}};
  const auto scores_of = [&](const data::Examples& examples, data::Split split,
                             const std::vector<Indices>& batches) {
    key["examples"] = data::digest_of(examples);
    return Collector(reference, mesh, config.gradient_accumulation_steps, examples, split, listener)
        .collect(file_of(folder, key), key, batches);
  };
  return {scores_of(train, data::Split::Train, training_batches(train, config)),
          test ? scores_of(*test, data::Split::Test, evaluation_batches(*test, config)) : ScoreTable()};
}

}  // namespace dpo::train
