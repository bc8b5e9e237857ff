#include "base/json_problem.h"
#include "base/json_reader.h"
#include "text/jinja/value.h"

namespace dpo::text::jinja {
namespace {

constexpr const char* kTooLarge = "an integer of the JSON does not fit into 64 bits";

// Builds values while the JSON is read.
class ValueBuilder {
 public:
  Value result;

  bool null() { return add({}); }
  bool boolean(bool flag) { return add(flag); }
  bool number_integer(std::int64_t number) { return add(number); }
  bool number_unsigned(std::uint64_t number) {
    if (number > static_cast<std::uint64_t>(INT64_MAX)) throw Failure(kTooLarge);
    return add(number);
  }
  bool number_float(double number, const std::string& text) {
    // The parser passes an integer beyond 64 bits as a float.
    if (text.find_first_of(".eE") == text.npos) throw Failure(kTooLarge);
    return add(number);
  }
  bool string(std::string& text) { return add(Value(std::move(text))); }
  bool key(std::string& name) {
    static const Value kRole("role"), kContent("content");  // in every message
    stack_.back().key = name == "role"      ? kRole.borrowed()
                        : name == "content" ? kContent.borrowed()
                                            : Value(std::move(name));
    return true;
  }
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

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
      stack_.back().dict.set(std::move(stack_.back().key), std::move(value));
    else
      stack_.back().items.push_back(std::move(value));
    return true;
  }

  std::vector<Open> stack_;
};

}  // namespace

Value parse_json(std::string_view text) {
  ValueBuilder builder;
  JsonReader reader(text, builder);
  if (!reader.read()) throw Failure(why_not_json(text));
  return std::move(builder.result);
}

}  // namespace dpo::text::jinja
