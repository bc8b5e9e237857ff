#include "data/digest.h"

#include <fmt/format.h>

#include "base/sha256.h"

namespace dpo::data {

std::string digest_of(const Examples& examples) {
  Sha256 sum;
  const auto add = [&sum](std::span<const Token> tokens) {
    const auto size = static_cast<std::uint64_t>(tokens.size());
    sum.add(std::as_bytes(std::span(&size, 1)));
    sum.add(std::as_bytes(tokens));
  };
  for (std::uint32_t i = 0; i < examples.size(); ++i) {
    const Example example = examples.at(i);
    add(example.prompt);
    for (const auto& response : example.responses) add(response);
    if (example.tail_weight != 1)
      sum.add(fmt::format("{} tokens, then {}", example.full_tokens, example.tail_weight));
    if (example.weight != 1 || example.margin != 0)
      sum.add(fmt::format("weight {}, margin {}", example.weight, example.margin));
  }
  return to_hex(sum.finish());
}

}  // namespace dpo::data
