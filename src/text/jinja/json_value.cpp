#include <nlohmann/json.hpp>

#include "text/jinja/value.h"

namespace dpo::text::jinja {
namespace {

constexpr const char* kTooLarge = "an integer of the JSON does not fit into 64 bits";

// Builds values while the JSON is read.
class ValueBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Value result;

  bool null() override { return add({}); }
  bool boolean(bool flag) override { return add(flag); }
  bool number_integer(number_integer_t number) override { return add(number); }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<number_unsigned_t>(INT64_MAX)) throw Failure(kTooLarge);
    return add(number);
  }
  bool number_float(number_float_t number, const string_t& text) override {
    // An integer beyond 64 bits arrives as a float.
    if (text.find_first_of(".eE") == text.npos) throw Failure(kTooLarge);
    return add(number);
  }
  bool string(string_t& text) override { return add(Value(std::move(text))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    stack_.back().key = Value(std::move(name));
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    throw Failure("not valid JSON, at byte " + std::to_string(byte));
  }

 private:
  struct Open {
    bool is_dict;
    Dict dict;
    Values items;
    Value key;
  };

  bool open(bool is_dict) {
    if (stack_.size() >= kMaxDepth) throw Failure("the JSON is nested too deeply");
    stack_.push_back({is_dict, {}, {}, {}});
    return true;
  }

  bool close() {
    Open top = std::move(stack_.back());
    stack_.pop_back();
    return add(top.is_dict ? Value(std::move(top.dict)) : Value::list(std::move(top.items)));
  }

  bool add(Value value) {
    if (stack_.empty())
      result = std::move(value);
    else if (stack_.back().is_dict)
      stack_.back().dict.set(stack_.back().key, std::move(value));
    else
      stack_.back().items.push_back(std::move(value));
    return true;
  }

  std::vector<Open> stack_;
};

Value convert(const nlohmann::ordered_json& json, std::uint32_t depth) {
  if (depth > kMaxDepth) throw Failure("the JSON is nested too deeply");
  switch (json.type()) {
    case nlohmann::json::value_t::boolean: return json.get<bool>();
    case nlohmann::json::value_t::number_integer: return json.get<std::int64_t>();
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) throw Failure(kTooLarge);
      return json.get<std::int64_t>();
    case nlohmann::json::value_t::number_float: return json.get<double>();
    case nlohmann::json::value_t::string: return json.get_ref<const std::string&>();
    case nlohmann::json::value_t::array: {
      Values items;
      for (const auto& item : json) items.push_back(convert(item, depth + 1));
      return Value::list(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      Dict dict;
      for (const auto& [key, value] : json.items()) dict.set(key, convert(value, depth + 1));
      return dict;
    }
    default: return {};
  }
}

}  // namespace

Value from_json(const nlohmann::ordered_json& json) { return convert(json, 1); }

Value parse_json(std::string_view text) {
  ValueBuilder builder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder.result);
}

}  // namespace dpo::text::jinja
