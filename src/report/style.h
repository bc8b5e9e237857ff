#pragma once

#include <string_view>

namespace dpo::report {

// Style and script in the head of every page.
extern const std::string_view kStyle;
extern const std::string_view kScript;

}  // namespace dpo::report
