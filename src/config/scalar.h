#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/node.h"

namespace dpo::config {

// An unquoted scalar of a YAML file, read as OmegaConf reads it: YAML 1.1 (yes/no/on/off are booleans,
// 0x1F and 1:30 are integers) with 5e-7 a number too.
Node yaml_scalar(std::string_view text, Origin origin);

// An unquoted value of the command line, read as Hydra's grammar does: 20_000, 5e-7, true, null, text.
Node argument_scalar(std::string text, Origin origin);

// nullopt if the number does not fit.
std::optional<std::int64_t> to_int(const std::string& canonical);
std::optional<double> to_double(const std::string& canonical);

// The shortest text that reads back as the same number, with a point or an exponent: 10.0, 5e-07.
std::string float_text(double value);

}  // namespace dpo::config
