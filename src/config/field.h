#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/choices.h"
#include "config/node.h"
#include "config/run_config.h"

namespace dpo::config {

// A key's effect on the trained weights. Every key must declare it. It decides whether the key is part of the
// run's identity, which is compared when a checkpoint is resumed, and whether a plan may suggest changing the
// key of a resumed run.
enum class Effect {
  none,      // same weights, up to the order of sums
  local,     // same weights; only of interest on this machine or in this run's folder: model cards omit it
  result,    // another value gives other weights
  indirect,  // affects them only through other parts of the identity: data, tokenizer, weights, updates
};

// One key of the configuration, bound to its member of RunConfig.
struct Field {
  std::string key;  // "model.archive"
  Effect effect{};
  std::string default_text;  // as YAML; ??? means required
  std::string expected;      // "a whole number >= 1"
  std::string help;
  std::vector<std::string> choices;   // the only valid values, if not empty
  std::vector<std::string> names;     // the only valid names in a map, if not empty
  std::vector<Loss> losses;           // if not empty, the key applies only to these losses
  std::vector<Optimizer> optimizers;  // if not empty, the key must be null for all others
  bool nullable = false;
  bool is_text = false;

  std::function<bool(const Node&, RunConfig&)> read;  // returns false for an unexpected value
  std::function<Node(const RunConfig&)> write;
};

// The condition on a value of type T, and its description.
template <class T>
struct Check {
  std::string expected;
  std::function<bool(const T&)> holds;
  std::vector<std::string> choices = {};
  std::function<T(T)> normalize = {};  // ~/x becomes /home/me/x; identity if empty
  std::vector<std::string> names = {};
};

// convert returns true if an untyped value is a T. to_node is the inverse.
bool convert(const Node& node, std::int64_t& value);
bool convert(const Node& node, double& value);
bool convert(const Node& node, bool& value);
bool convert(const Node& node, std::string& value);
bool convert(const Node& node, RecomputedLayers& value);  // true, false, auto or a number
bool convert(const Node& node, Sampling& value);          // true, false or auto
bool convert(const Node& node, std::vector<std::string>& value);
bool convert(const Node& node, std::vector<double>& value);
bool convert(const Node& node, std::map<std::string, std::int64_t>& value);
bool convert(const Node& node, std::map<std::string, double>& value);
bool convert(const Node& node, std::map<std::string, std::string>& value);
Node to_node(std::int64_t value);
Node to_node(double value);
Node to_node(bool value);
Node to_node(const std::string& value);
Node to_node(RecomputedLayers value);
Node to_node(Sampling value);
Node to_node(const std::vector<std::string>& value);
Node to_node(const std::vector<double>& value);
Node to_node(const std::map<std::string, std::int64_t>& value);
Node to_node(const std::map<std::string, double>& value);
Node to_node(const std::map<std::string, std::string>& value);

template <NamedChoice Choice>
bool convert(const Node& node, Choice& value) {
  const auto found = node.kind == Node::Kind::Text ? find_choice<Choice>(node.text) : std::nullopt;
  value = found.value_or(Choice{});
  return found.has_value();
}

template <NamedChoice Choice>
Node to_node(Choice value) {
  return make_scalar(Node::Kind::Text, name_of(value), {});
}

template <class T>
bool read_member(const Node& node, const Check<T>& check, T& member) {
  T value{};
  if (!convert(node, value)) return false;
  if (check.normalize) value = check.normalize(std::move(value));
  if (!check.holds(value)) return false;
  member = std::move(value);
  return true;
}

template <class T>
bool read_member(const Node& node, const Check<T>& check, std::optional<T>& member) {
  if (node.kind == Node::Kind::Null) return member.reset(), true;
  T value{};
  if (!read_member(node, check, value)) return false;
  member = std::move(value);
  return true;
}

template <class T>
Node to_node(const std::optional<T>& member) {
  return member ? to_node(*member) : make_scalar(Node::Kind::Null, "null", {});
}

template <class T>
struct Nullable : std::false_type {
  using Value = T;
};
template <class T>
struct Nullable<std::optional<T>> : std::true_type {
  using Value = T;
};

template <class Member>
using CheckOf = Check<typename Nullable<Member>::Value>;

template <class Member, class Access>
Field make_field(std::string key, Access access, Effect effect, std::string default_text,
                 CheckOf<Member> check, std::string help) {
  Field field;
  field.key = std::move(key);
  field.effect = effect;
  field.default_text = std::move(default_text);
  field.nullable = Nullable<Member>::value;
  using Value = typename Nullable<Member>::Value;
  field.is_text = std::is_same_v<Value, std::string> || std::is_enum_v<Value>;
  field.expected = check.expected + (field.nullable ? ", or null" : "");
  field.choices = check.choices;
  field.names = check.names;
  field.help = std::move(help);
  field.read = [access, check](const Node& node, RunConfig& config) {
    return read_member(node, check, access(config));
  };
  field.write = [access](const RunConfig& config) { return to_node(access(config)); };
  return field;
}

template <class Member>
Field field(std::string key, Member RunConfig::*member, Effect effect, std::string default_text,
            CheckOf<Member> check, std::string help) {
  const auto access = [member](auto& config) -> auto& { return config.*member; };
  return make_field<Member>(std::move(key), access, effect, std::move(default_text), std::move(check),
                            std::move(help));
}

template <class Section, class Member>
Field field(std::string key, Section RunConfig::*section, Member Section::*member, Effect effect,
            std::string default_text, CheckOf<Member> check, std::string help) {
  const auto access = [ section, member ](auto& config) -> auto& { return (config.*section).*member; };
  return make_field<Member>(std::move(key), access, effect, std::move(default_text), std::move(check),
                            std::move(help));
}

// Returns the field, which must be null unless the optimizer is one of these.
Field setting_of(std::vector<Optimizer> optimizers, Field field);

Check<bool> yes_or_no();
Check<RecomputedLayers> recomputed_layers();
Check<std::int64_t> at_least(std::int64_t least);
Check<std::int64_t> between(std::int64_t least, std::int64_t most);
Check<double> above(double bound);
Check<double> above_to(double bound, double most);
Check<double> not_below(double bound);
Check<double> from_to_below(double least, double bound);
Check<double> from_to(double least, double most);
Check<std::string> text(std::string what);
Check<std::string> path(std::string what);  // text that may begin with ~/
Check<std::string> one_of(std::vector<std::string> choices);
Check<std::vector<std::string>> paths(std::string what);  // one or more
Check<std::vector<double>> two_numbers(std::string what, Check<double> each);

template <NamedChoice Choice>
Check<Choice> one_of(const std::vector<Choice>& choices) {
  const Check<std::string> named = one_of(names_of(choices));
  return {named.expected, [named](Choice value) { return named.holds(name_of(value)); }, named.choices};
}

// Checks a map's names and values.
template <class T>
Check<std::map<std::string, T>> map_of(std::string expected, Check<std::string> name, Check<T> value) {
  const auto holds = [name, value](const std::map<std::string, T>& map) {
    return std::all_of(map.begin(), map.end(), [&](const auto& entry) {
      return name.holds(entry.first) && value.holds(entry.second);
    });
  };
  const auto normalized = [name](std::map<std::string, T> map) {
    std::map<std::string, T> all;
    for (auto& [key, item] : map) all.emplace(name.normalize ? name.normalize(key) : key, std::move(item));
    return all;
  };
  return {std::move(expected), holds, {}, normalized, name.choices};
}

}  // namespace dpo::config
