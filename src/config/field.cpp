#include "config/field.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/user_path.h"
#include "config/scalar.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;

// Parses a number or a boolean from the environment, which contains only text, as in a file.
Node typed(const Node& node) {
  const bool untyped = node.kind == Kind::Text && node.origin.kind == Origin::Kind::Environment;
  return untyped ? yaml_scalar(node.text, node.origin) : node;
}

template <class T>
bool convert_map(const Node& node, std::map<std::string, T>& value) {
  if (node.kind != Kind::Map) return false;
  return std::all_of(node.children.begin(), node.children.end(),
                     [&](const Node& child) { return convert(child, value[child.name]); });
}

template <class T>
bool convert_list(const Node& node, std::vector<T>& value) {
  if (node.kind != Kind::List) return false;
  return std::all_of(node.children.begin(), node.children.end(),
                     [&](const Node& child) { return convert(child, value.emplace_back()); });
}

template <class T>
Node list_node(const std::vector<T>& value) {
  Node list;
  list.kind = Kind::List;
  for (const T& item : value) list.children.push_back(to_node(item));
  return list;
}

template <class T>
Node map_node(const std::map<std::string, T>& value) {
  Node map = make_map({});
  for (const auto& [name, item] : value) {
    map.children.push_back(to_node(item));
    map.children.back().name = name;
  }
  return map;
}

}  // namespace

bool convert(const Node& node, std::int64_t& value) {
  const Node number = typed(node);
  const auto parsed = number.kind == Kind::Int ? to_int(number.text) : std::nullopt;
  if (parsed) value = *parsed;
  return parsed.has_value();
}

bool convert(const Node& node, double& value) {
  const Node number = typed(node);
  const bool is_number = number.kind == Kind::Int || number.kind == Kind::Float;
  const auto parsed = is_number ? to_double(number.text) : std::nullopt;
  if (!parsed || !std::isfinite(*parsed)) return false;
  value = *parsed;
  return true;
}

bool convert(const Node& node, bool& value) {
  const Node boolean = typed(node);
  value = boolean.text == "true";
  return boolean.kind == Kind::Bool;
}

bool convert(const Node& node, std::string& value) {
  const bool scalar = node.kind == Kind::Text || node.kind == Kind::Int || node.kind == Kind::Float ||
                      node.kind == Kind::Bool;
  value = node.text;
  return scalar;
}

bool convert(const Node& node, RecomputedLayers& value) {
  bool all = false;
  if (convert(node, all))
    value.count = all ? RecomputedLayers::kAll : 0;
  else if (node.text == "auto")
    value.count = RecomputedLayers::kAutomatic;
  else
    return convert(node, value.count) && value.count >= 0;
  return true;
}

bool convert(const Node& node, Sampling& value) {
  bool samples = false;
  const bool is_boolean = convert(node, samples);
  value = !is_boolean ? Sampling::automatic : samples ? Sampling::whole : Sampling::none;
  return is_boolean || (node.kind == Kind::Text && node.text == name_of(Sampling::automatic));
}

bool convert(const Node& node, std::vector<std::string>& value) { return convert_list(node, value); }
bool convert(const Node& node, std::vector<double>& value) { return convert_list(node, value); }

bool convert(const Node& node, std::map<std::string, std::int64_t>& value) {
  return convert_map(node, value);
}
bool convert(const Node& node, std::map<std::string, double>& value) { return convert_map(node, value); }
bool convert(const Node& node, std::map<std::string, std::string>& value) { return convert_map(node, value); }

Node to_node(std::int64_t value) { return make_scalar(Kind::Int, fmt::format("{}", value), {}); }
Node to_node(double value) { return make_scalar(Kind::Float, float_text(value), {}); }
Node to_node(bool value) { return make_scalar(Kind::Bool, value ? "true" : "false", {}); }
Node to_node(const std::string& value) { return make_scalar(Kind::Text, value, {}); }

Node to_node(RecomputedLayers value) {
  if (value.is_automatic()) return to_node(std::string("auto"));
  const bool all = value.count == RecomputedLayers::kAll;
  return all || value.count == 0 ? to_node(all) : to_node(value.count);
}

Node to_node(Sampling value) {
  return value == Sampling::automatic ? to_node(name_of(value)) : to_node(value == Sampling::whole);
}

Node to_node(const std::vector<std::string>& value) { return list_node(value); }
Node to_node(const std::vector<double>& value) { return list_node(value); }
Node to_node(const std::map<std::string, std::int64_t>& value) { return map_node(value); }
Node to_node(const std::map<std::string, double>& value) { return map_node(value); }
Node to_node(const std::map<std::string, std::string>& value) { return map_node(value); }

Field setting_of(std::vector<Optimizer> optimizers, Field field) {
  field.optimizers = std::move(optimizers);
  return field;
}

Check<bool> yes_or_no() {
  return {"true or false", [](const bool&) { return true; }};
}

Check<RecomputedLayers> recomputed_layers() {
  return {"true, false, auto, or a number of layers", [](const RecomputedLayers&) { return true; }};
}

Check<std::int64_t> at_least(std::int64_t least) {
  return {fmt::format("a whole number >= {}", least),
          [=](const std::int64_t& value) { return value >= least; }};
}

Check<std::int64_t> between(std::int64_t least, std::int64_t most) {
  return {fmt::format("a whole number from {} to {}", least, most),
          [=](const std::int64_t& value) { return least <= value && value <= most; }};
}

Check<double> above(double bound) {
  return {fmt::format("a number > {}", bound), [=](const double& value) { return value > bound; }};
}

Check<double> above_to(double bound, double most) {
  return {fmt::format("a number > {} and <= {}", bound, most),
          [=](const double& value) { return value > bound && value <= most; }};
}

Check<double> not_below(double bound) {
  return {fmt::format("a number >= {}", bound), [=](const double& value) { return value >= bound; }};
}

Check<double> from_to_below(double least, double bound) {
  return {fmt::format("a number >= {} and < {}", least, bound),
          [=](const double& value) { return least <= value && value < bound; }};
}

Check<double> from_to(double least, double most) {
  return {fmt::format("a number from {} to {}", least, most),
          [=](const double& value) { return least <= value && value <= most; }};
}

Check<std::string> text(std::string what) {
  return {std::move(what), [](const std::string& value) {
            return !value.empty() && value.find_first_of("\n\r\t") == std::string::npos;
          }};
}

Check<std::string> path(std::string what) {
  Check<std::string> check = text(std::move(what));
  check.normalize = expand_home;
  return check;
}

Check<std::string> one_of(std::vector<std::string> choices) {
  const std::string expected = fmt::format("one of {}", fmt::join(choices, ", "));
  const auto holds = [choices](const std::string& value) {
    return std::find(choices.begin(), choices.end(), value) != choices.end();
  };
  return {expected, holds, choices};
}

Check<std::vector<std::string>> paths(std::string what) {
  const auto holds = [](const std::vector<std::string>& values) {
    return !values.empty() && std::all_of(values.begin(), values.end(), text("").holds);
  };
  const auto normalized = [](std::vector<std::string> values) {
    std::transform(values.begin(), values.end(), values.begin(), expand_home);
    return values;
  };
  return {std::move(what), holds, {}, normalized};
}

Check<std::vector<double>> two_numbers(std::string what, Check<double> each) {
  return {std::move(what), [each](const std::vector<double>& values) {
            return values.size() == 2 && std::all_of(values.begin(), values.end(), each.holds);
          }};
}

}  // namespace dpo::config
