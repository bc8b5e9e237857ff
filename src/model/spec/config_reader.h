#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace dpo::model {

// Reads members of a config.json with messages that name the file and the key. A member that is null counts
// as absent.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, const std::string& origin) : object_(object), origin_(origin) {}

  const nlohmann::json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  std::int64_t size(const char* key) const {
    const auto found = optional_size(key);
    if (!found) fail(fmt::format("'{}' is missing", key));
    return *found;
  }

  std::optional<std::int64_t> optional_size(const char* key) const {
    const nlohmann::json* value = find(key);
    if (!value) return std::nullopt;
    // No real model has larger sizes, and products of larger sizes would overflow.
    constexpr std::int64_t kLargest = 1 << 24;
    if (!value->is_number_integer() || value->get<std::int64_t>() < 1 ||
        value->get<std::int64_t>() > kLargest)
      fail(fmt::format("'{}' is {}, expected a whole number from 1 to {}", key, shown(*value), kLargest));
    return value->get<std::int64_t>();
  }

  bool flag(const char* key, bool fallback) const {
    const nlohmann::json* value = find(key);
    if (!value) return fallback;
    if (!value->is_boolean()) fail(fmt::format("'{}' is {}, expected true or false", key, shown(*value)));
    return value->get<bool>();
  }

  double number(const char* key, double fallback) const {
    const nlohmann::json* value = find(key);
    if (!value) return fallback;
    if (!value->is_number() || !(value->get<double>() >= 0) || value->get<double>() > 1e12)
      fail(fmt::format("'{}' is {}, expected a number >= 0", key, shown(*value)));
    return value->get<double>();
  }

  std::string text(const char* key, const char* fallback) const {
    const nlohmann::json* value = find(key);
    if (!value) return fallback;
    if (!value->is_string()) fail(fmt::format("'{}' is {}, expected a string", key, shown(*value)));
    return value->get<std::string>();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}: {}", origin_, what));
  }

  const std::string& origin() const { return origin_; }

 private:
  static std::string shown(const nlohmann::json& value) {
    if (value.is_structured()) return value.is_array() ? "a list" : "an object";  // may be deeply nested
    constexpr std::size_t kLongest = 80;
    std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    return text;
  }

  const nlohmann::json& object_;
  const std::string& origin_;
};

}  // namespace dpo::model
