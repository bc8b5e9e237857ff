#include "train/checkpoint.h"

#include <algorithm>
#include <chrono>

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/save.h"
#include "model/weights.h"
#include "train/failures.h"

namespace dpo::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kMarker = "COMPLETE";
constexpr const char* kProgressFile = "state/run.json";
constexpr const char* kOptimizerFile = "state/optimizer.safetensors";
constexpr std::uint64_t kShardBytes = 5'000'000'000;

checkpoint::Dtype dtype_of(at::ScalarType type) {
  return type == at::kBFloat16 ? checkpoint::Dtype::BF16
         : type == at::kHalf   ? checkpoint::Dtype::F16
                               : checkpoint::Dtype::F32;
}

void write_text(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void write_optimizer(const fs::path& path, const std::vector<model::NamedTensor>& tensors) {
  std::vector<checkpoint::Source> sources;
  for (const auto& [name, tensor] : tensors)
    sources.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec(), [tensor] {
                         return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()),
                                          static_cast<std::size_t>(tensor.nbytes()));
                       }});
  checkpoint::write_safetensors(path, std::move(sources));
}

json marker_of(const fs::path& folder) {
  json files = json::object();
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = {{"size", entry.file_size()},
                                                            {"sha256", to_hex(sha256_of_file(entry.path()))}};
  return {{"files", files}};
}

json read_json(const fs::path& path) {
  const json value = json::parse(read_text_file(path, "checkpoint"), nullptr, false);
  if (!value.is_object()) throw UserError(fmt::format("{}: not a JSON object", path.string()));
  return value;
}

std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  constexpr std::string_view kStep = "step-";
  if (!name.starts_with(kStep) || name.size() == kStep.size() || name.size() > kStep.size() + 18)
    return std::nullopt;
  const std::string digits = name.substr(kStep.size());
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoll(digits);
}

constexpr const char* kLatest = "LATEST";
constexpr const char* kBest = "BEST";

// A link of a run that always points at a complete checkpoint.
void point(const fs::path& link, const fs::path& folder) {
  const fs::path fresh = link.parent_path() / fmt::format(".{}.new", link.filename().string());
  fs::remove(fresh);
  fs::create_directory_symlink(folder.filename(), fresh);
  fs::rename(fresh, link);
}

// The complete checkpoints of a run by their steps; the others are named in `incomplete`.
std::map<std::int64_t, fs::path> checkpoints_of(const fs::path& run, std::vector<std::string>& incomplete) {
  std::map<std::int64_t, fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    const auto step = step_of(entry.path());
    if (!step || entry.is_symlink() || !entry.is_directory()) continue;
    if (fs::exists(entry.path() / kMarker))
      found[*step] = entry.path();
    else
      incomplete.push_back(entry.path().string());
  }
  return found;
}

// Removes the oldest checkpoints but those that a link points at. A folder loses its name first, so that what
// a killed process leaves of it is no checkpoint.
void keep_newest(const fs::path& run, std::int64_t keep) {
  std::vector<std::string> incomplete;
  std::map<std::int64_t, fs::path> found = checkpoints_of(run, incomplete);
  std::error_code absent;
  const fs::path best = fs::read_symlink(run / kBest, absent);
  for (auto excess = static_cast<std::int64_t>(found.size()) - keep; excess > 0; --excess) {
    const fs::path oldest = found.begin()->second;
    found.erase(found.begin());
    if (oldest.filename() == best) continue;
    const fs::path doomed = fmt::format("{}.tmp.removed", oldest.string());
    fs::rename(oldest, doomed);
    fs::remove_all(doomed);
  }
}

}  // namespace

Snapshot take_snapshot(const checkpoint::LoadedModel& described, const model::Weights& stored,
                       const optim::Optimizer& optimizer, const Progress& progress) {
  Snapshot snapshot;
  snapshot.model = described;
  snapshot.model.weights = model::make_weights(described.table, stored.dtype(), at::kCPU);
  for (std::size_t i = 0; i < stored.blocks.size(); ++i)
    snapshot.model.weights.blocks[i].flat.copy_(stored.blocks[i].flat);
  for (const auto& [name, tensor] : optimizer.state())
    snapshot.optimizer.push_back(
        {name, tensor.to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true)});
  snapshot.progress = progress;
  return snapshot;
}

void write_checkpoint(const fs::path& folder, const Snapshot& snapshot) {
  AtomicFolder whole(folder);
  const fs::path& temporary = whole.temporary();
  checkpoint::save_model(temporary, snapshot.model, kShardBytes);
  fs::create_directory(temporary / "state");
  write_optimizer(temporary / kOptimizerFile, snapshot.optimizer);
  const json progress = {{"updates", snapshot.progress.updates},
                         {"examples", snapshot.progress.examples},
                         {"reward_sum", snapshot.progress.reward_sum},
                         {"rewards", snapshot.progress.rewards},
                         {"best", snapshot.progress.best ? json(*snapshot.progress.best) : json()},
                         {"identity", snapshot.progress.identity}};
  write_text(temporary / kProgressFile, progress.dump(2) + "\n");
  write_text(temporary / kMarker, marker_of(temporary).dump(2) + "\n");
  whole.commit();
}

Progress read_progress(const fs::path& folder) {
  const json value = read_json(folder / kProgressFile);
  try {
    const json best = value.value("best", json());
    return {value.at("updates"),
            value.at("examples"),
            value.at("reward_sum"),
            value.at("rewards"),
            best.is_number() ? std::optional(best.get<double>()) : std::nullopt,
            value.at("identity")};
  } catch (const json::exception& error) {
    throw UserError(fmt::format("{}: {}", (folder / kProgressFile).string(), error.what()));
  }
}

void verify_checkpoint(const fs::path& folder) {
  if (!fs::exists(folder / kMarker))
    throw UserError(
        fmt::format("{} is not a complete checkpoint: it has no file {}", folder.string(), kMarker));
  const json marker = read_json(folder / kMarker);
  for (const auto& [name, expected] : marker.at("files").items()) {
    const fs::path file = folder / name;
    if (!fs::exists(file) || fs::file_size(file) != expected.at("size").get<std::uint64_t>())
      throw UserError(fmt::format("{} is missing or not of the size that {} says", file.string(), kMarker));
    if (to_hex(sha256_of_file(file)) != expected.at("sha256").get<std::string>())
      throw UserError(
          fmt::format("{} is damaged: its SHA-256 is not the one in {}; resume from another checkpoint",
                      file.string(), (folder / kMarker).string()));
  }
}

void read_optimizer(const fs::path& folder, optim::Optimizer& optimizer) {
  const checkpoint::SafetensorsFile file(folder / kOptimizerFile);
  std::map<std::string, const checkpoint::Entry*> entries;
  for (const checkpoint::Entry& entry : file.header().entries) entries[entry.name] = &entry;
  for (auto& [name, tensor] : optimizer.state()) {
    const auto found = entries.find(name);
    if (found == entries.end() || found->second->shape != tensor.sizes().vec() ||
        found->second->dtype != dtype_of(tensor.scalar_type()))
      throw UserError(
          fmt::format("{}: '{}' is missing or of another shape: is this another optimizer's state?",
                      (folder / kOptimizerFile).string(), name));
    const auto bytes = file.bytes_of(*found->second);
    tensor.copy_(at::from_blob(const_cast<std::byte*>(bytes.data()), tensor.sizes(),
                               at::TensorOptions().dtype(tensor.scalar_type())));
  }
}

std::optional<fs::path> newest_checkpoint(const fs::path& run, std::vector<std::string>& ignored) {
  const std::map<std::int64_t, fs::path> found = checkpoints_of(run, ignored);
  if (found.empty()) return std::nullopt;
  return found.rbegin()->second;
}

CheckpointWriter::~CheckpointWriter() {
  if (writing_.valid()) writing_.wait();
}

void CheckpointWriter::write(Snapshot snapshot, bool is_best) {
  finish();
  writing_ = std::async(std::launch::async, [run = run_, kept = std::move(snapshot), keep = keep_, is_best] {
    const fs::path folder = run / fmt::format("step-{}", kept.progress.examples);
    if (!fs::exists(folder / kMarker)) {
      fs::remove_all(folder);  // a damaged one of the same step, which this replaces
      write_checkpoint(folder, kept);
    }
    point(run / kLatest, folder);
    if (is_best) point(run / kBest, folder);
    if (keep) keep_newest(run, *keep);
  });
}

void CheckpointWriter::check() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void CheckpointWriter::finish() {
  if (!writing_.valid()) return;
  try {
    writing_.get();
  } catch (const std::exception& error) {
    throw TrainingFailure(
        fmt::format("a checkpoint could not be saved: {}. Those before it are kept; {} is the "
                    "newest of them",
                    error.what(), (run_ / kLatest).string()));
  }
}

}  // namespace dpo::train
