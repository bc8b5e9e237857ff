#pragma once

#include <string_view>

namespace dpo::report {

// What every page contains in its head.
extern const std::string_view kStyle;
extern const std::string_view kScript;

}  // namespace dpo::report
