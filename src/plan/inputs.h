// plan predicts what a run will need before it starts: rules, memory, time, disk and advice.
// Everything here is arithmetic over the configuration, the model's tensor table and the device's figures.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/evaluation.h"
#include "config/losses.h"
#include "config/mesh.h"
#include "config/run_config.h"
#include "config/storage.h"
#include "model/spec/adapter.h"
#include "model/spec/quantization.h"
#include "model/spec/table.h"
#include "plan/lengths.h"
#include "plan/machine.h"

namespace dpo::plan {

inline double to_double(std::int64_t count) { return static_cast<double>(count); }

// Facts that were looked up on this machine. Nothing else in a plan depends on where it is made.
struct HostInfo {
  std::optional<double> free_disk;     // bytes free in run_folder; unknown on another machine
  std::string run_folder;              // where runs are written
  std::optional<double> memory;        // bytes; unknown on another machine
  std::string obstacle;                // why the run folder cannot be created; empty: it can
  std::optional<bool> archive_exists;  // whether model.archive exists, if it is set
  bool resumes = false;                // the run continues from a checkpoint
  // True if the model's tokenizer has a chat template, as those of instruct models do. Null if the tokenizer
  // is not known.
  std::optional<bool> has_chat_template{};
};

struct Inputs {
  config::RunConfig run;
  Machine machine;
  model::ModelShape shape;
  std::optional<model::Quantization> quantization{};  // of the weights in the files
  std::shared_ptr<const model::TensorTable> table;
  std::shared_ptr<const model::TensorTable> adapter{};  // null without one
  Lengths lengths;
  // Data sets that are not on this machine and have no statistics: `lengths` are those of other data, and an
  // error that depends on them is only a warning.
  std::vector<std::string> unmeasured;
  HostInfo host;
  std::map<std::string, std::string> commits{};  // of hub repositories that a run reads, by name
  std::string held_out_sha256{};  // of the examples that a run evaluates on; empty: not known, or none

  // Returns the tensors that have gradients and optimizer state and that are saved.
  const model::TensorTable& trained() const { return adapter ? *adapter : *table; }
};

// The unit that the loss takes as one example.
struct ExampleUnit {
  const char* name = "pair";
  std::int64_t in_epoch = 0;
  std::int64_t in_test = 0;
  ResponseCount responses;
};

ExampleUnit unit_of(const config::LossConfig& loss, const Lengths& lengths);

// Returns how many examples the run evaluates, limited by the size of the test split if that is known.
config::EvaluationSize evaluation_of(const Inputs& in);

bool is_preference(const config::LossConfig& loss);

// True if the reference scores can be computed before the run.
bool can_cache(const config::LossConfig& loss);

enum class ReferenceMode { none, live, cached };

// Converts the adapter's keys to what the tensor tables take.
model::AdapterSettings adapter_settings(const config::AdapterConfig& config);

// Returns the format of an adapter's frozen matrices if the model's files are already quantized. They are not
// quantized again.
config::BaseDtype base_dtype_of(const model::Quantization& stored);

// Returns the tensors of the run's adapter; null without one.
std::shared_ptr<const model::TensorTable> adapter_of(const config::RunConfig& run,
                                                     const model::TensorTable& table);

// Bytes per element of everything a run keeps.
struct ElementBytes {
  std::int64_t weights = 4;  // in forward and backward passes
  std::int64_t gradients = 4;
  std::int64_t stored = 4;     // the weights that are updated and saved
  double master = 0;           // their bytes beyond the weights of the passes
  double state = 4;            // one value of the optimizer state, with its share of a scale
  std::int64_t reduction = 4;  // an element of a reduce-scatter
  std::int64_t reference = 4;

  bool in_16_bits() const { return weights == 2; }  // matmuls
};

ElementBytes element_bytes(const config::Storage& storage);

// Replaces model.fsdp_policy_mp=auto by the dtype that is fastest on the device without losing precision of
// the weights, and returns a note that says why. Any other value is kept, without a note.
std::optional<std::string> resolve_precision(config::ModelConfig& model, const Device& device);

// The work of every rank in a microbatch, derived from the inputs.
struct Workload {
  const Inputs& in;
  Machine machine{};         // as the ranks share it
  config::MeshShape mesh{};  // of the ranks
  std::int64_t spread = 1;   // GPUs of one machine that BasicTrainer spreads the layers over
  ReferenceMode reference{};
  config::Storage storage{};
  config::Reshard reshard{};  // as the run sets it, or the plan has chosen
  ElementBytes bytes{};
  ExampleTokens example{};
  double examples = 0;            // in one microbatch of one data rank
  double tokens = 0;              // mean number of tokens in these examples
  double peak_tokens = 0;         // number of tokens that memory is planned for
  double response_rows = 0;       // rows that the head computes
  double peak_response_rows = 0;  // rows that memory is planned for
  double attended = 0;            // pairs (query, key) of attention
  std::int64_t recomputed_layers = 0;

  std::int64_t devices() const { return mesh.ranks() * spread; }
  std::int64_t ranks_per_device() const { return (machine.gpus + in.machine.gpus - 1) / in.machine.gpus; }
};

// Returns the mesh of the run on its devices, or nullopt if trainer, mesh keys and devices contradict each
// other.
std::optional<config::MeshShape> find_mesh(const Inputs& in);

// Throws a UserError if trainer, mesh keys and devices contradict each other.
Workload make_workload(const Inputs& in, ReferenceMode reference_if_auto);

}  // namespace dpo::plan
