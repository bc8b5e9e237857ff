// The filters, tests and functions that every template has.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/jinja/objects.h"

namespace dpo::text::jinja {

// The first positional argument is the value that the filter or test is applied to.
using Filter = Value (*)(Arguments& arguments);
using Test = bool (*)(Arguments& arguments);

// nullptr if there is none of that name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);

// range, dict, cycler, joiner, raise_exception, strftime_now; nullptr if there is none of that name.
// `namespace` is made by the rendering, which owns its namespaces.
const Value* find_global(std::string_view name);

// What raise_exception throws.
class Raised : public Failure {
 public:
  using Failure::Failure;
};

// datetime.now().strftime(format)
std::string strftime_now(const std::string& format);

// All filters, in tables by what they work on.
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
               const Value& fallback = {}) const;  // the fallback, if it is not none, for undefined values

 private:
  Values parts_;
};

}  // namespace dpo::text::jinja
