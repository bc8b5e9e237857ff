// Matches the arguments of a call with a function's parameters.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/objects.h"

namespace dpo::text::jinja {

class Parameters {
 public:
  // Throws Failure for too many, unknown or missing arguments. The first `required` parameters must be given.
  // A parameter with an empty name can only be given by position.
  Parameters(const std::string& function, Arguments& arguments, std::initializer_list<const char*> names,
             std::size_t required);

  bool has(std::size_t i) const { return values_[i].kind() != Kind::kMissing; }
  const Value& operator[](std::size_t i) const { return values_[i]; }
  Value get(std::size_t i, Value fallback) const { return has(i) ? values_[i] : std::move(fallback); }

  std::int64_t integer(std::size_t i, std::int64_t fallback) const;  // an int or bool, else a Failure
  bool flag(std::size_t i, bool fallback = false) const;             // whether Python treats it as true

 private:
  std::string function_;
  Values values_;
};

// Returns a string argument. Throws a Failure that names `what` for another type.
const std::string& need_string(const Value& value, std::string_view what);

}  // namespace dpo::text::jinja
