#include "run/profile.h"

#include <algorithm>
#include <map>

namespace dpo::run {
namespace {

constexpr std::size_t kShownCalls = 12;

struct Rule {
  const char *pattern, *part;
};

// The first rule whose pattern occurs in a kernel's name applies. Attention precedes matmuls, because the
// names of attention kernels contain gemm or cutlass too.
constexpr Rule kRules[] = {
    {"nccl", "communication"},
    {"flash", "attention"},
    {"fmha", "attention"},
    {"attention", "attention"},
    {"merge_outputs", "attention"},
    {"merge_lse", "attention"},
    {"nvjet", "matmuls"},
    {"gemm", "matmuls"},
    {"cutlass", "matmuls"},
    {"splitK", "matmuls"},
    {"gemv", "matmuls"},
    {"cublas", "matmuls"},
    {"update_kernel", "optimizer"},
    {"softmax", "softmax of the head"},
    {"score_kernel", "softmax of the head"},
    {"gradient_kernel", "softmax of the head"},
    {"norm_", "norms"},
    {"Norm", "norms"},
    {"rotat", "rotary embedding"},
    {"rotary", "rotary embedding"},
    {"gated_", "activations"},
    {"bias_activation", "activations"},
    {"fp8_", "quantizing to 8 bits"},
    {"largest_of_columns", "quantizing to 8 bits"},
    {"gelu", "activations"},
    {"silu", "activations"},
    {"Memcpy", "copies and fills"},
    {"Memset", "copies and fills"},
    {"FillFunctor", "copies and fills"},
    {"copy", "copies and fills"},
    {"embedding", "embedding"},
    {"row_sums", "embedding"},
    {"reduce_kernel", "sums"},
    {"add", "additions"},
};

// Removes "void " and the common namespaces, and cuts a long name.
std::string short_name(std::string name) {
  for (const std::string& noise :
       {std::string("void "), std::string("at::native::"), std::string("at::cuda::"),
        std::string("(anonymous namespace)::"), std::string("<unnamed>::")})
    for (std::size_t at = name.find(noise); at != std::string::npos; at = name.find(noise, at))
      name.erase(at, noise.size());
  constexpr std::size_t kLongest = 72;
  return name.size() <= kLongest ? name : name.substr(0, kLongest - 3) + "...";
}

std::vector<ProfilePart> by_time(const std::map<std::string, ProfilePart>& sums) {
  std::vector<ProfilePart> parts;
  for (const auto& [name, part] : sums) parts.push_back(part);
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return parts;
}

// Returns each span's nanoseconds minus those of the spans that it contains. `spans` is sorted by thread,
// then by begin.
std::vector<std::int64_t> own_times(const std::vector<ops::ProfiledSpan>& spans) {
  std::vector<std::int64_t> own;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    own.push_back(spans[i].end - spans[i].begin);
    while (!open.empty() &&
           (spans[open.back()].thread != spans[i].thread || spans[open.back()].end <= spans[i].begin))
      open.pop_back();
    if (!open.empty()) own[open.back()] -= own[i];
    open.push_back(i);
  }
  return own;
}

// Returns the nanoseconds in which at least one span runs. `spans` is sorted by begin.
std::int64_t covered(const std::vector<ops::ProfiledSpan>& spans) {
  std::int64_t sum = 0, end = 0;
  for (const ops::ProfiledSpan& span : spans) {
    sum += std::max<std::int64_t>(0, span.end - std::max(span.begin, end));
    end = std::max(end, span.end);
  }
  return sum;
}

}  // namespace

std::string part_of_kernel(const std::string& name) {
  for (const Rule& rule : kRules)
    if (name.find(rule.pattern) != std::string::npos) return rule.part;
  return "other";
}

Profile profile_of(std::vector<ops::ProfiledSpan> spans, double seconds, std::int64_t updates, bool on_gpu) {
  const auto count = static_cast<double>(updates);
  std::ranges::sort(spans, {}, &ops::ProfiledSpan::begin);
  Profile profile;
  profile.update = seconds / count;
  profile.idle = std::max(0.0, seconds - static_cast<double>(covered(spans)) * 1e-9) / count;
  if (!on_gpu) std::ranges::stable_sort(spans, {}, &ops::ProfiledSpan::thread);
  const std::vector<std::int64_t> own = own_times(spans);
  std::map<std::string, ProfilePart> parts, calls;
  for (std::size_t i = 0; i < spans.size(); ++i)
    for (auto& [sums, name] : {std::pair(&parts, on_gpu ? part_of_kernel(spans[i].name) : spans[i].name),
                               std::pair(&calls, short_name(spans[i].name))}) {
      ProfilePart& part = (*sums)[name];
      part.name = name;
      part.seconds += static_cast<double>(on_gpu ? spans[i].end - spans[i].begin : own[i]) * 1e-9 / count;
      part.calls += 1 / count;
    }
  profile.calls = by_time(calls);
  profile.calls.resize(std::min(profile.calls.size(), kShownCalls));
  if (on_gpu) profile.parts = by_time(parts);
  return profile;
}

}  // namespace dpo::run
