#include "report/held_out.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/quantity.h"

namespace dpo::report {
namespace {

// Returns true if two sets have the same size and no known difference in their digests.
bool may_be_same(const HeldOut& one, const HeldOut& other) {
  return one.examples == other.examples &&
         (one.digest.empty() || other.digest.empty() || one.digest == other.digest);
}

// Returns "5 and 16 examples", or "16 examples each, but not the same ones".
std::string sizes_of(const std::vector<HeldOut>& sets) {
  std::vector<std::int64_t> sizes;
  for (const HeldOut& set : sets)
    if (std::ranges::find(sizes, set.examples) == sizes.end()) sizes.push_back(set.examples);
  std::ranges::sort(sizes);
  if (sizes.size() == 1) return plural(sizes.front(), "example") + " each, but not the same ones";
  std::vector<std::string> texts;
  for (const std::int64_t size : sizes) texts.push_back(with_commas(size));
  const std::string last = std::move(texts.back());
  texts.pop_back();
  return fmt::format("{} and {} examples", fmt::join(texts, ", "), last);
}

std::string note_of(const HeldOut& run, const std::vector<HeldOut>& sets,
                    HeldOutComparison::Verdict verdict) {
  using Verdict = HeldOutComparison::Verdict;
  if (run.examples == 0 || verdict == Verdict::same) return "";
  if (run.digest.empty()) return "set not recorded";
  if (verdict == Verdict::unknown) return "";
  return fmt::format("set {}", std::ranges::find(sets, run) - sets.begin() + 1);
}

}  // namespace

std::string held_out_digest(const nlohmann::json& plan) {
  const auto found = plan.is_object() ? plan.find("held_out_sha256") : plan.end();
  return found != plan.end() && found->is_string() ? found->get<std::string>() : "";
}

HeldOutComparison compare_held_out(std::span<const HeldOut> runs) {
  using Verdict = HeldOutComparison::Verdict;
  HeldOutComparison comparison;
  std::vector<HeldOut> sets;  // distinct ones
  for (const HeldOut& run : runs)
    if (run.examples > 0 && std::ranges::find(sets, run) == sets.end()) sets.push_back(run);
  for (const HeldOut& one : sets)
    for (const HeldOut& other : sets)
      if (!may_be_same(one, other)) comparison.verdict = Verdict::different;
  const bool are_several =
      std::ranges::count_if(runs, [](const HeldOut& run) { return run.examples > 0; }) > 1;
  const bool all_known = std::ranges::none_of(sets, [](const HeldOut& set) { return set.digest.empty(); });
  if (comparison.verdict == Verdict::same && are_several && !all_known) comparison.verdict = Verdict::unknown;
  if (comparison.verdict == Verdict::different)
    comparison.text = fmt::format("different held-out sets: {}; not comparable", sizes_of(sets));
  if (comparison.verdict == Verdict::unknown)
    comparison.text = fmt::format(
        "each run was evaluated on {}; an older dpo did not record which, so they may not be the same",
        plural(sets.front().examples, "example"));
  for (const HeldOut& run : runs) comparison.notes.push_back(note_of(run, sets, comparison.verdict));
  return comparison;
}

}  // namespace dpo::report
