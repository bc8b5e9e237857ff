#include "cli/engine_work.h"

#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/quantity.h"
#include "base/stop.h"
#include "checkpoint/read_tensors.h"
#include "cli/program.h"
#include "cli/progress.h"

namespace dpo::cli {
checkpoint::ProgressCallback shown_progress(const std::string& what) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLong{1};
  const auto line = std::make_shared<ProgressLine>();
  const Clock::time_point start = Clock::now();
  return [=](std::int64_t done, std::int64_t all) {
    if (stop_requested()) throw Stopped();
    if (Clock::now() - start >= kLong) line->show(what, done, all, "bytes");
  };
}

at::ScalarType scalar_type_named(const std::string& name) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    if (checkpoint::name_of_scalar(type) == name) return type;
  throw UserError(fmt::format("dtype '{}' is not known, expected float32, bfloat16 or float16", name));
}

std::string summary_of(const checkpoint::LoadedModel& model) {
  const std::int64_t count = model.table.count();
  const std::int64_t bytes = count * static_cast<std::int64_t>(c10::elementSize(model.weights.dtype()));
  return fmt::format("{}, {} parameters, {}, {}", family_name(model.config.shape.family), with_commas(count),
                     checkpoint::name_of_scalar(model.weights.dtype()), file_size(bytes));
}

}  // namespace dpo::cli
