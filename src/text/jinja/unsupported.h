// The names that Jinja2 and Python define but dpo does not support, because no chat template needs them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dpo::text::jinja {

struct UnsupportedNames {
  std::string_view kind;   // "filter", "tag", ...
  std::string_view names;  // separated by spaces
};

std::span<const UnsupportedNames> unsupported_names();

bool is_unsupported(std::string_view kind, std::string_view name);

// Returns the message for a template that uses such a name.
std::string unsupported(std::string_view kind, std::string_view name);

// Returns the message for a name that was not found, which may be an unsupported one.
std::string not_found(std::string_view kind, std::string_view name);

}  // namespace dpo::text::jinja
