#include "engine/out_of_memory.h"

#include <algorithm>
#include <new>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "plan/output.h"

namespace dpo::engine {
namespace {

// Strips the position in LibTorch's source and the allocator's advice about its own variables, which do not
// help.
std::string short_message(const std::exception& error) {
  std::string text = message_of(error);
  if (const std::size_t begin = text.find("DefaultCPUAllocator"); begin != text.npos) text.erase(0, begin);
  for (const char* rest : {" If reserved but unallocated", " Of the allocated memory", "\n"})
    text = text.substr(0, text.find(rest));
  return text;
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error))
    return true;
  // The CPU's allocator and the GPU's libraries have no exception class for running out of memory.
  const std::string text = error.what();
  for (const char* sign : {"DefaultCPUAllocator", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED",
                           "CUDNN_STATUS_ALLOC_FAILED"})
    if (text.find(sign) != text.npos) return true;
  return false;
}

std::string out_of_memory_text(const std::exception& error, const plan::Plan& plan, plan::Inputs in) {
  std::string text =
      fmt::format("out of memory: {}\nThe plan was:\n{}", short_message(error), plan::memory_to_text(plan));
  // Remedies must need a tenth less memory than this plan.
  constexpr double kShare = 0.9;
  in.machine.device.memory *= std::min(1.0, kShare * plan.memory.total() / plan.memory.available);
  in.run.activation_checkpointing = plan.resolved.activation_checkpointing;
  in.run.fsdp_reshard = plan.resolved.fsdp_reshard;
  std::vector<plan::Remedy> remedies =
      plan::remedies_for(plan::Finding{"memory", plan::Verdict::error, "", {}}, plan::assess(in), in);
  // The plan judged that this run fits and would decide the same again, so recomputation is set explicitly.
  for (plan::Remedy& remedy : remedies)
    std::ranges::replace(remedy.overrides, std::string("activation_checkpointing=auto"),
                         std::string("activation_checkpointing=true"));
  if (!remedies.empty()) text += "\nAccording to the plan, these need less:\n";
  for (const plan::Remedy& remedy : remedies)
    text += fmt::format("  {}   ({})\n", fmt::join(remedy.overrides, " "), remedy.reason);
  return text;
}

}  // namespace dpo::engine
