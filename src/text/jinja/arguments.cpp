#include "text/jinja/arguments.h"

#include <fmt/format.h>

#include "text/jinja/python.h"

namespace dpo::text::jinja {

Parameters::Parameters(const std::string& function, Arguments& arguments,
                       std::initializer_list<const char*> names, std::size_t required)
    : function_(function), values_(std::move(arguments.positional)) {
  if (values_.size() > names.size())
    throw Failure(
        fmt::format("{}() takes at most {} arguments, got {}", function, names.size(), values_.size()));
  values_.resize(names.size(), Value::missing());
  for (auto& [name, value] : arguments.named) {
    std::size_t i = 0;
    while (i < names.size() && (*names.begin()[i] == '\0' || name != names.begin()[i])) ++i;
    if (i == names.size())
      throw Failure(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    if (has(i)) throw Failure(fmt::format("{}() got multiple values for argument '{}'", function, name));
    values_[i] = std::move(value);
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!has(i)) throw Failure(fmt::format("{}() takes at least {} arguments", function, required));
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t fallback) const {
  return has(i) ? need_index(values_[i], function_) : fallback;
}

bool Parameters::flag(std::size_t i, bool fallback) const { return has(i) ? truth(values_[i]) : fallback; }

const std::string& need_string(const Value& value, std::string_view what) {
  if (!value.is_string()) throw Failure(fmt::format("{}: expected str, got {}", what, type_name(value)));
  return value.string();
}

}  // namespace dpo::text::jinja
