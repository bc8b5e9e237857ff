#include "comm/introduction.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dpo::comm {
namespace {

using nlohmann::json;

std::string text_of(const Introduction& rank) {
  return json{{"host", rank.host},       {"program", rank.program}, {"command", rank.command},
              {"has_gpu", rank.has_gpu}, {"problem", rank.problem}, {"keys", rank.keys}}
      .dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

Introduction parse(const std::string& text) {
  const json object = json::parse(text);
  return {object.at("host"),    object.at("program"), object.at("command"),
          object.at("has_gpu"), object.at("problem"), object.at("keys")};
}

std::string value_in(const Introduction& rank, const std::string& key) {
  const auto found = rank.keys.find(key);
  return found == rank.keys.end() ? "not set" : found->second;
}

// Describes how a rank differs from rank 0.
std::vector<std::string> differences(const Introduction& first, const Introduction& other, std::size_t rank) {
  const std::string here = fmt::format("rank {} (host {})", rank, other.host);
  const std::string there = fmt::format("rank 0 (host {})", first.host);
  if (other.program != first.program)
    return {fmt::format("{} is {}, but {} is {}; install the same dpo on every machine", here, other.program,
                        there, first.program)};
  if (other.command != first.command)
    return {fmt::format("{} was started for '{}', but {} for '{}'; all ranks of a run need the same command",
                        here, other.command, there, first.command)};
  if (other.problem != first.problem) {
    const bool is_here = !other.problem.empty();
    return {fmt::format("{}: {}", is_here ? here : there, is_here ? other.problem : first.problem)};
  }
  if (other.has_gpu != first.has_gpu)
    return {fmt::format(
        "{} sees no GPU, but {} does; check the driver there (nvidia-smi) and CUDA_VISIBLE_DEVICES",
        other.has_gpu ? there : here, other.has_gpu ? here : there)};
  std::map<std::string, std::string> all = first.keys;
  all.insert(other.keys.begin(), other.keys.end());
  std::vector<std::string> found;
  for (const auto& [key, value] : all)
    if (value_in(first, key) != value_in(other, key))
      found.push_back(fmt::format("{} is {} on {}, but {} on {}", key, value_in(other, key), here,
                                  value_in(first, key), there));
  if (!found.empty()) found.back() += "; give every rank the same configuration";
  return found;
}

}  // namespace

std::vector<Introduction> introduce(Group& all, const Introduction& own) {
  std::vector<Introduction> ranks;
  for (const std::string& text : gather_texts(all, text_of(own))) ranks.push_back(parse(text));
  return ranks;
}

std::vector<std::string> disagreements(const std::vector<Introduction>& ranks) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank)
    if (auto found = differences(ranks[0], ranks[rank], rank); !found.empty()) return found;
  if (!ranks[0].problem.empty()) return {ranks[0].problem};
  return {};
}

}  // namespace dpo::comm
