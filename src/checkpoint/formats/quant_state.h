#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::checkpoint {

// Metadata that bitsandbytes stores next to the codes of a 4-bit matrix.
struct QuantState {
  std::vector<std::int64_t> shape;  // shape of the matrix
  std::optional<float> offset;      // offset of the scales, if they are 8-bit themselves
};

// Parses bitsandbytes' JSON. Only nf4 in blocks of 64, with scales in blocks of 256, is supported; anything
// else is a UserError that begins with `origin`.
QuantState parse_quant_state(std::string_view text, const std::string& origin);

}  // namespace dpo::checkpoint
