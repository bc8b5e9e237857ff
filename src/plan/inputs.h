// plan: what a run will do to its machine, before it touches it: rules, memory, time, disk and advice.
// Everything here is arithmetic over the configuration, the model's tensor table and figures of the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/evaluation.h"
#include "config/mesh.h"
#include "config/run_config.h"
#include "model/tables/table.h"
#include "plan/lengths.h"
#include "plan/machine.h"
#include "plan/precision.h"

namespace dpo::plan {

// What was looked up on this machine; nothing else of the plan depends on where it is made.
struct Surroundings {
  std::optional<double> free_disk;     // bytes where runs are written; unknown for another machine
  std::string run_folder;              // where that is
  std::optional<double> host_memory;   // bytes of this machine's; unknown for another
  std::string obstacle;                // why nothing can be written there; empty: it can
  std::optional<bool> archive_exists;  // model.archive, when it is set
};

struct Inputs {
  config::RunConfig run;
  Machine machine;
  model::Shape shape;
  std::shared_ptr<const model::TensorTable> table;
  Lengths lengths;
  // Data sets that are not here and have no statistics: `lengths` stands in for them, and no rule refuses a
  // run because of it.
  std::vector<std::string> unmeasured;
  Surroundings surroundings;
};

// What the loss compares at a time.
struct ExampleUnit {
  const char* name = "pair";
  std::int64_t in_epoch = 0;
  std::int64_t in_test = 0;
  ResponseCount responses;
};

ExampleUnit unit_of(const config::LossConfig& loss, const Lengths& lengths);

// What the run evaluates: of a test split that was counted, no more than it has.
config::EvaluationSize evaluation_of(const Inputs& in);

enum class Reference { none, live, cached };

// The inputs with everything derived that the formulas share.
struct Case {
  const Inputs& in;
  Machine machine{};         // as the ranks see it
  config::MeshShape mesh{};  // of the ranks
  std::int64_t spread = 1;   // GPUs that the layers of one process are spread over (BasicTrainer)
  Reference reference{};
  Precision precision{};
  ExampleTokens example{};
  double examples = 0;     // of one microbatch on one data rank
  double tokens = 0;       // mean of those examples
  double peak_tokens = 0;  // what memory must be there for
  double response_rows = 0;
  double peak_response_rows = 0;
  double attended = 0;

  std::int64_t devices() const { return mesh.ranks() * spread; }
};

// The mesh of the run on its devices; nothing where trainer, keys and devices contradict each other.
std::optional<config::MeshShape> find_mesh(const Inputs& in);

// A contradiction of trainer, mesh keys and devices is a UserError.
// `reference` says what to assume where the configuration leaves it open (reference=auto).
Case make_case(const Inputs& in, Reference reference_if_auto);

}  // namespace dpo::plan
