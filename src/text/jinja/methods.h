// Methods of str, list, tuple and dict.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/objects.h"

namespace dpo::text::jinja {

// Return the method bound to the value, or nullopt if its type has none of that name.
std::optional<Value> find_str_method(const Value& text, const std::string& name);
std::optional<Value> find_sequence_method(const Value& list, const std::string& name);
std::optional<Value> find_dict_method(const Value& dict, const std::string& name);

// Returns whether the method changes its object, which templates may not do.
bool changes_object(const Value& value, const std::string& name);

// Computes text.format(...).
std::string format_string(const std::string& text, const Arguments& arguments);

// The implementation of a method. bind_method makes it a value.
using Method = Value (*)(const Value& self, Arguments& arguments);
Value bind_method(const Value& self, const std::string& name, Method method);

}  // namespace dpo::text::jinja
