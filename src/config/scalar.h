#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/node.h"

namespace dpo::config {

// Parses an unquoted scalar of a YAML file like OmegaConf: YAML 1.1 (yes/no/on/off are booleans, 0x1F and
// 1:30 are integers), and 5e-7 is also a number.
Node yaml_scalar(std::string_view text, Origin origin);

// Parses an unquoted command-line value with Hydra's grammar: 20_000, 5e-7, true, null, text.
Node argument_scalar(std::string text, Origin origin);

// Returns nullopt if the number does not fit.
std::optional<std::int64_t> to_int(const std::string& canonical);
std::optional<double> to_double(const std::string& canonical);

// Returns the shortest text that reads back as the same number, with a point or an exponent: 10.0, 5e-07.
std::string float_text(double value);

}  // namespace dpo::config
