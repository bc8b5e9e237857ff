#include "checkpoint/formats/quant_state.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse_json.h"

namespace dpo::checkpoint {
namespace {

using nlohmann::json;

class StateReader {
 public:
  StateReader(const json& object, const std::string& origin) : object_(object), origin_(origin) {}

  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  void require(const char* key, const json& expected) const {
    const json* found = find(key);
    if (!found || *found != expected)
      fail(fmt::format("'{}' is {}, expected {}", key, shown(found), expected.dump()));
  }

  float number(const char* key) const {
    const json* found = find(key);
    if (!found || !found->is_number()) fail(fmt::format("'{}' is {}, expected a number", key, shown(found)));
    const auto value = found->get<float>();
    if (!std::isfinite(value))
      fail(fmt::format("'{}' is {}, expected a number of 32 bits", key, shown(found)));
    return value;
  }

  std::vector<std::int64_t> shape() const {
    constexpr std::int64_t kLargest = std::int64_t{1} << 30;  // so that rows * columns fits
    const json* found = find("shape");
    std::vector<std::int64_t> sizes;
    if (found && found->is_array() && found->size() == 2)
      for (const json& size : *found)
        if (size.is_number_unsigned() && size >= 1 && size <= kLargest)
          sizes.push_back(size.get<std::int64_t>());
    if (sizes.size() != 2) fail("'shape' is not that of a matrix");
    return sizes;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format(
        "{}: bitsandbytes' state cannot be read: {}; use the model that it was made from", origin_, what));
  }

 private:
  static std::string shown(const json* value) {
    if (!value) return "missing";
    if (value->is_structured()) return value->is_array() ? "a list" : "an object";
    constexpr std::size_t kLongest = 40;
    return value->dump(-1, ' ', true, json::error_handler_t::replace).substr(0, kLongest);
  }

  const json& object_;
  const std::string& origin_;
};

}  // namespace

QuantState parse_quant_state(std::string_view text, const std::string& origin) {
  const json object = parse_json(text);
  const StateReader in(object, origin);
  if (!object.is_object()) in.fail("it is not a JSON object");
  in.require("quant_type", "nf4");
  in.require("blocksize", 64);
  QuantState state{in.shape(), std::nullopt};
  if (!in.find("nested_blocksize")) return state;
  in.require("nested_blocksize", 256);
  state.offset = in.number("nested_offset");
  return state;
}

}  // namespace dpo::checkpoint
