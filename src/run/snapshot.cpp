#include "run/snapshot.h"

#include <iterator>
#include <map>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"
#include "base/quantity.h"
#include "base/sha256.h"
#include "base/shell.h"
#include "checkpoint/adapter.h"
#include "checkpoint/read_tensors.h"
#include "checkpoint/save.h"
#include "checkpoint/tensor_parts.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunStateFile = "state/run.json";
constexpr const char* kOptimizerFile = "state/optimizer.safetensors";

std::string name_of(const optim::StateTensor& state, const model::TensorTable& table) {
  return fmt::format("{}.{}", state.name, table.blocks[state.block].tensors[state.tensor].name);
}

// Returns the tensors of the optimizer's file. Arrays are named after the parameters; the scales of 8-bit
// state after the block numbers.
std::vector<checkpoint::Entry> optimizer_entries(const optim::State& state, const model::TensorTable& table,
                                                 const model::Layout& layout) {
  std::vector<checkpoint::Entry> entries;
  for (const optim::StateArray& array : state.arrays) {
    const auto dtype = checkpoint::dtype_of(array.blocks.front().scalar_type());
    for (std::size_t i = 0; i < table.blocks.size(); ++i) {
      if (array.group > 1)
        entries.push_back({fmt::format("{}.{}", array.name, i), dtype,
                           checkpoint::group_shape(table.blocks[i], layout, array.group)});
      else
        for (const model::TensorInfo& tensor : table.blocks[i].tensors)
          entries.push_back({fmt::format("{}.{}", array.name, tensor.name), dtype, tensor.shape});
    }
  }
  for (const optim::StateTensor& tensor : state.tensors)
    entries.push_back({name_of(tensor, table), checkpoint::dtype_of(tensor.values.scalar_type()),
                       tensor.values.sizes().vec()});
  return entries;
}

std::vector<checkpoint::TensorPart> whole_parts(const optim::State& state, const model::TensorTable& table) {
  std::vector<checkpoint::TensorPart> parts;
  for (const optim::StateTensor& tensor : state.tensors)
    parts.push_back(checkpoint::whole_part(name_of(tensor, table), tensor.values));
  return parts;
}

void append(std::vector<checkpoint::TensorPart>& parts, std::vector<checkpoint::TensorPart> more) {
  std::move(more.begin(), more.end(), std::back_inserter(parts));
}

// Returns the parts that this rank writes into the model's files and the optimizer's file.
std::vector<checkpoint::TensorPart> parts_of(const Snapshot& snapshot) {
  const model::Layout& layout = snapshot.part.layout;
  const std::vector<at::Tensor> weights = checkpoint::flats_of(snapshot.model.weights);
  const auto& adapter = snapshot.model.adapter;
  std::vector<checkpoint::TensorPart> parts =
      adapter ? checkpoint::parts_to_write(checkpoint::peft_table(adapter->table), weights, layout, "")
              : checkpoint::parts_to_write(snapshot.model.table, weights, layout, "");
  for (const optim::StateArray& array : snapshot.optimizer.arrays) {
    const std::string prefix = array.name + ".";
    append(parts, array.group > 1
                      ? checkpoint::group_parts_of(snapshot.trained, array.blocks, layout, prefix)
                      : checkpoint::parts_to_write(snapshot.trained, array.blocks, layout, prefix));
  }
  append(parts, whole_parts(snapshot.optimizer, snapshot.trained));
  return parts;
}

at::Tensor host_copy(const at::Tensor& tensor) {
  return tensor.to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor host_copy(const model::BlockWeights& block) {
  if (!block.rest.defined()) return host_copy(block.flat);
  at::Tensor exact = at::empty(block.flat.sizes(), at::kFloat);
  ops::join(exact, block.flat, block.rest);
  return exact;
}

Marker marker_of(const fs::path& folder) {
  Marker marker;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      marker[fs::relative(entry.path(), folder).string()] = {entry.file_size(),
                                                             to_hex(sha256_of_file(entry.path()))};
  return marker;
}

bool has_size(const fs::path& file, std::uint64_t size) {
  std::error_code failed;
  return fs::is_regular_file(file, failed) && fs::file_size(file, failed) == size;
}

}  // namespace

Snapshot take_snapshot(const checkpoint::LoadedModel& loaded, const model::Weights& stored,
                       const optim::Optimizer& optimizer, const model::TensorTable& trained,
                       const RunState& run_state, const RankPart& part) {
  Snapshot snapshot{loaded, {}, trained, run_state, part};
  snapshot.model.weights = {};
  if (!part.writes) return snapshot;
  for (const model::BlockWeights& block : stored.blocks)
    snapshot.model.weights.blocks.push_back({host_copy(block), {}});
  snapshot.optimizer = optimizer.state();
  for (optim::StateArray& array : snapshot.optimizer.arrays)
    for (at::Tensor& block : array.blocks) block = host_copy(block);
  for (optim::StateTensor& tensor : snapshot.optimizer.tensors) tensor.values = host_copy(tensor.values);
  return snapshot;
}

void write_checkpoint(const fs::path& folder, const Snapshot& snapshot, const std::stop_token& stop) {
  const checkpoint::LoadedModel& saved = snapshot.model;
  std::vector<checkpoint::TensorFile> model, all;
  if (snapshot.part.writes) {
    const at::ScalarType dtype = saved.weights.dtype();
    model = saved.adapter ? checkpoint::adapter_files(saved.adapter->table, dtype)
                          : checkpoint::model_files(saved.table, dtype, kShardBytes);
    all = model;
    all.push_back({kOptimizerFile, checkpoint::plan_safetensors(optimizer_entries(
                                       snapshot.optimizer, snapshot.trained, snapshot.part.layout))});
  }
  RankTasks tasks;
  tasks.begin = [&](const fs::path& temporary) {
    if (saved.adapter)
      checkpoint::make_adapter_files(temporary, *saved.adapter, saved.table, saved.other_files, model);
    else
      checkpoint::make_model_files(temporary, saved, model);
    fs::create_directory(temporary / "state");
    checkpoint::make_files(temporary, {all.back()});
  };
  tasks.own_part = [&](const fs::path& temporary) {
    if (snapshot.part.writes) checkpoint::write_parts(temporary, all, parts_of(snapshot));
  };
  tasks.end = [&](const fs::path& temporary) {
    write_file(temporary / kRunStateFile, text_of(snapshot.run_state));
    write_file(temporary / kMarker, text_of(marker_of(temporary)));
  };
  write_on_all_ranks(folder, kMarker, snapshot.part, tasks, stop);
}

bool is_complete(const fs::path& folder) { return fs::exists(folder / kMarker); }

RunState read_run_state(const fs::path& folder) {
  const fs::path file = folder / kRunStateFile;
  return parse_run_state(read_text_file(file, "checkpoint"), file.string());
}

namespace {

Marker read_marker(const fs::path& folder) {
  const fs::path marker = folder / kMarker;
  return parse_marker(read_text_file(marker, "checkpoint"), marker.string());
}

void verify_file(const fs::path& folder, const std::string& name, const MarkedFile& expected) {
  const fs::path file = folder / name;
  if (!has_size(file, expected.size))
    throw UserError(fmt::format("{} is missing or has another size than in {}", file.string(), kMarker));
  if (to_hex(sha256_of_file(file)) != expected.sha256)
    throw UserError(fmt::format("{} is damaged: its SHA-256 is not the one in {}", file.string(),
                                (folder / kMarker).string()));
}

void verify_files(const fs::path& folder) {
  if (!is_complete(folder))
    throw UserError(
        fmt::format("{} is not a complete checkpoint: it has no file {}", folder.string(), kMarker));
  for (const auto& [name, expected] : read_marker(folder)) verify_file(folder, name, expected);
}

std::string how_to_recover(const fs::path& checkpoint) {
  const fs::path run = checkpoint.parent_path();
  const auto older = checkpoint_before(checkpoint);
  if (!older) return fmt::format("there is no older checkpoint in {}", run.string());
  return fmt::format("move {} away; then {} resumes from {}, the one before it", checkpoint.string(),
                     resume_command(run), older->filename().string());
}

}  // namespace

void verify_checkpoint(const fs::path& folder) {
  try {
    verify_files(folder);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}; {}", error.what(), how_to_recover(folder)));
  }
}

void verify_weights(const fs::path& folder) {
  for (const auto& [name, expected] : read_marker(folder))
    if (const fs::path file = name;
        !file.has_parent_path() && file.extension() == ".safetensors" && fs::exists(folder / file))
      try {
        verify_file(folder, name, expected);
      } catch (const UserError& error) {
        throw UserError(
            fmt::format("{}; start from another checkpoint, or remove {} to use the files as they are",
                        error.what(), (folder / kMarker).string()));
      }
}

namespace {

// Throws a UserError if the number of tensor-parallel ranks changed, because scales of 8-bit state belong to
// groups within those ranks' buffers.
void require_same_groups(const checkpoint::WeightFiles& file, const checkpoint::StoredTensor* found,
                         const checkpoint::Entry& wanted) {
  const bool are_scales = wanted.name.find(".absmax.") != std::string::npos;
  if (!found || !are_scales || found->shape.size() != 2 || found->shape[0] == wanted.shape[0]) return;
  throw UserError(
      fmt::format("{}: the 8-bit optimizer state was written by {}, but there {} now; it can be resumed with "
                  "any number of shards and replicas, but only with mesh.tensor={}",
                  file.origin().string(), plural(found->shape[0], "tensor-parallel rank"),
                  wanted.shape[0] == 1 ? "is 1" : fmt::format("are {}", wanted.shape[0]), found->shape[0]));
}

}  // namespace

void read_optimizer(const fs::path& folder, optim::Optimizer& optimizer, const model::TensorTable& trained,
                    const model::Layout& layout) {
  const checkpoint::WeightFiles file(folder / kOptimizerFile);
  std::map<std::string, const checkpoint::StoredTensor*> stored;
  for (const checkpoint::StoredTensor& tensor : file.tensors()) stored[tensor.name] = &tensor;
  const optim::State state = optimizer.state();
  for (const checkpoint::Entry& wanted : optimizer_entries(state, trained, layout)) {
    const auto found = stored.find(wanted.name);
    require_same_groups(file, found == stored.end() ? nullptr : found->second, wanted);
    if (found == stored.end() || found->second->shape != wanted.shape || found->second->dtype != wanted.dtype)
      throw UserError(
          fmt::format("{}: '{}' is missing or has another shape or dtype: is this the state of another "
                      "optimizer, or was it written by an older version of dpo?",
                      file.origin().string(), wanted.name));
  }
  std::vector<checkpoint::TensorPart> parts = whole_parts(state, trained);
  for (const optim::StateArray& array : state.arrays) {
    const std::string prefix = array.name + ".";
    append(parts, array.group > 1 ? checkpoint::group_parts_of(trained, array.blocks, layout, prefix)
                                  : checkpoint::parts_of(trained, array.blocks, layout, prefix));
  }
  std::vector<checkpoint::Destination> destinations;
  for (checkpoint::TensorPart& part : parts)
    destinations.push_back({stored.at(part.name), part.values, std::move(part.ranges)});
  checkpoint::read_tensors(file, std::move(destinations), {});
}

}  // namespace dpo::run
