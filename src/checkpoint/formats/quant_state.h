#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::checkpoint {

// What bitsandbytes writes beside the codes of a matrix of 4 bits.
struct QuantState {
  std::vector<std::int64_t> shape;  // of the matrix
  std::optional<float> offset;      // of the scales, if they have 8 bits themselves
};

// Parses that JSON. What is not nf4 in blocks of 64, with scales in blocks of 256, is a UserError, which
// begins with `origin`.
QuantState parse_quant_state(std::string_view text, const std::string& origin);

}  // namespace dpo::checkpoint
