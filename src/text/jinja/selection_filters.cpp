#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

// The operation of a filter like map or select on one item. It is made when the first item is requested, as
// in Jinja2, where a generator that is never read reports no errors.
using Change = std::function<Value(const Value& item)>;

std::uint32_t depth_of(const Arguments& arguments) {
  std::uint32_t depth = 0;
  for (const Value& value : arguments.positional) depth = std::max(depth, value.depth());
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, value.depth());
  return depth;
}

Arguments with_item(const Value& item, const Arguments& rest, std::size_t skip) {
  Arguments all;
  all.positional.push_back(item);
  for (std::size_t i = skip; i < rest.positional.size(); ++i) all.positional.push_back(rest.positional[i]);
  all.named = rest.named;
  return all;
}

Change attribute_change(const Arguments& arguments) {
  Value attribute, fallback;
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute")
      attribute = value;
    else if (name == "default")
      fallback = value;
    else
      throw Failure(fmt::format("Unexpected keyword argument '{}'", name));
  }
  return
      [path = AttributePath(attribute), fallback](const Value& item) { return path.follow(item, fallback); };
}

// Makes the operation of map. `arguments` do not include the value that is filtered.
Change map_change(const Arguments& arguments) {
  const auto is_attribute = [](const auto& named) { return named.first == "attribute"; };
  if (arguments.positional.empty() &&
      std::any_of(arguments.named.begin(), arguments.named.end(), is_attribute))
    return attribute_change(arguments);
  if (arguments.positional.empty()) throw Failure("map requires a filter argument");
  return [arguments](const Value& item) {
    const Value& name = arguments.positional[0];
    const Filter filter = name.is_string() ? find_filter(name.string()) : nullptr;
    if (!filter) throw Failure(not_found("filter", str(name)));
    Arguments all = with_item(item, arguments, 1);
    return filter(all);
  };
}

Change test_change(const Arguments& arguments, bool by_attribute) {
  if (by_attribute && arguments.positional.empty()) throw Failure("Missing parameter for attribute name");
  const std::size_t at = by_attribute ? 1 : 0;
  const AttributePath path(by_attribute ? arguments.positional[0] : Value());
  return [arguments, at, path](const Value& item) -> Value {
    const Value value = path.follow(item);
    if (arguments.positional.size() <= at) return truth(value);
    const Value& name = arguments.positional[at];
    const Test test = name.is_string() ? find_test(name.string()) : nullptr;
    if (!test) throw Failure(not_found("test", str(name)));
    Arguments all = with_item(value, arguments, at + 1);
    return test(all);
  };
}

// Makes a generator of changed items. `step` returns whether to yield an item, and may change it.
template <class Prepare, class Step>
Value lazily(Arguments& arguments, const Prepare& prepare, const Step& step) {
  if (arguments.positional.empty()) throw Failure("a filter needs a value");
  const std::uint32_t depth = depth_of(arguments);
  const Value value = arguments.positional[0];
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = std::move(arguments.named);
  std::shared_ptr<Iterator> source;
  Change change;
  bool ended = false;
  return make_generator(depth, [=](Value& item) mutable {
    if (ended) return false;
    if (!source) {
      ended = !truth(value);
      if (ended) return false;
      change = prepare(rest);
      source = iterate(value);
    }
    const Level level;  // generators may read each other
    while (source->next(item)) {
      spend();
      if (step(item, change(item))) return true;
    }
    ended = true;
    return false;
  });
}

Value filter_map(Arguments& arguments) {
  return lazily(arguments, map_change, [](Value& item, const Value& changed) {
    item = changed;
    return true;
  });
}

template <bool wanted, bool by_attribute>
Value filter_select(Arguments& arguments) {
  return lazily(
      arguments, [](const Arguments& rest) { return test_change(rest, by_attribute); },
      [](Value&, const Value& passed) { return truth(passed) == wanted; });
}

}  // namespace

std::span<const NamedFilter> selection_filters() {
  static constexpr NamedFilter filters[] = {
      {"map", filter_map},
      {"reject", filter_select<false, false>},
      {"rejectattr", filter_select<false, true>},
      {"select", filter_select<true, false>},
      {"selectattr", filter_select<true, true>},
  };
  return filters;
}

Filter find_filter(std::string_view name) {
  static const auto filters = [] {
    std::unordered_map<std::string_view, Filter> all;
    for (const auto& part : {text_filters(), number_filters(), sequence_filters(), selection_filters()})
      for (const auto& [filter_name, filter] : part) all.emplace(filter_name, filter);
    return all;
  }();
  const auto found = filters.find(name);
  return found == filters.end() ? nullptr : found->second;
}

}  // namespace dpo::text::jinja
