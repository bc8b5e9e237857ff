// The filters, tests and functions of every template.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/jinja/objects.h"

namespace dpo::text::jinja {

// The first positional argument is the value that the filter or test applies to.
using Filter = Value (*)(Arguments& arguments);
using Test = bool (*)(Arguments& arguments);

// Return nullptr if there is none of that name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);

// Returns range, dict, raise_exception or strftime_now, or nullptr for another name.
// Rendering makes `namespace`, because it owns the namespaces.
const Value* find_global(std::string_view name);

// Thrown by raise_exception.
class Raised : public Failure {
 public:
  using Failure::Failure;
};

// Returns datetime.now().strftime(format).
std::string strftime_now(const std::string& format);

// Tables of all filters, by the type of their input.
struct NamedFilter {
  std::string_view name;
  Filter filter;
};
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> number_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> selection_filters();

// Follows a path like "a.b.0" from a value, as filters do with their `attribute`.
class AttributePath {
 public:
  explicit AttributePath(const Value& path);
  Value follow(Value value,
               const Value& fallback = {}) const;  // the fallback, if not none, for undefined values

 private:
  Values parts_;
};

}  // namespace dpo::text::jinja
