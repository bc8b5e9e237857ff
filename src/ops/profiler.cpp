#include "ops/profiler.h"

#include <cstdlib>
#include <utility>

#include <torch/csrc/autograd/profiler_kineto.h>

namespace dpo::ops {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

}  // namespace

Profiler::Profiler(bool on_gpu) : on_gpu_(on_gpu) {
  ::setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);  // otherwise Kineto logs its own start
  const ProfilerConfig config(ProfilerState::KINETO);
  const std::set<ActivityType> activities = {on_gpu ? ActivityType::CUDA : ActivityType::CPU};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
}

Profiler::~Profiler() {
  if (running_) profiler::disableProfiler();
}

std::vector<ProfiledSpan> Profiler::stop() {
  running_ = false;
  const auto result = profiler::disableProfiler();
  const c10::DeviceType device = on_gpu_ ? c10::kCUDA : c10::kCPU;
  std::vector<ProfiledSpan> spans;
  for (const profiler::KinetoEvent& event : result->events())
    if (event.deviceType() == device)
      spans.push_back({event.name(), static_cast<std::int64_t>(event.startNs()),
                       static_cast<std::int64_t>(event.endNs()), event.startThreadId()});
  return spans;
}

}  // namespace dpo::ops
