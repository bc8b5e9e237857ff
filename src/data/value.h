#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dpo::data {

// A value of a row, whatever kind of file it came from.
struct Value {
  enum class Kind { Null, Bool, Number, Text, List, Map };

  Kind kind = Kind::Null;
  std::string text;                // of a Text
  double number = 0;               // of a Number
  std::vector<std::string> names;  // of a Map's items
  std::vector<Value> items;        // of a List or a Map

  static Value of(std::string text) { return {Kind::Text, std::move(text), 0, {}, {}}; }
  static Value of(double number) { return {Kind::Number, {}, number, {}, {}}; }

  // The item of a map; null if there is none. Of several with one name the last counts, as in Python.
  const Value* find(std::string_view name) const;

  // "a text", "a list": for messages.
  std::string_view kind_name() const;
};

}  // namespace dpo::data
