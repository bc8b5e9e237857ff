#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

using KindTest = bool (*)(const Value& value);

template <KindTest of_kind>
bool test_kind(Arguments& arguments) {
  const Parameters given("test", arguments, {"value"}, 1);
  return of_kind(given[0]);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && value.integer() != 0; }
bool is_false(const Value& value) { return value.is_bool() && value.integer() == 0; }
bool is_integer(const Value& value) { return value.kind() == Kind::kInt; }
bool is_float(const Value& value) { return value.kind() == Kind::kFloat; }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_odd(const Value& value) { return equal(calculate(value, Arithmetic::kModulo, 2), 1); }
bool is_even(const Value& value) { return equal(calculate(value, Arithmetic::kModulo, 2), 0); }

// Returns whether the value has both a length and items.
bool is_sequence(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is_dict() || value.is_undefined();
}

bool is_callable(const Value& value) { return value.is_undefined() || object_as<Callable>(value); }

bool test_divisibleby(Arguments& arguments) {
  const Parameters given("divisibleby", arguments, {"value", "num"}, 2);
  return equal(calculate(given[0], Arithmetic::kModulo, given[1]), 0);
}

bool test_sameas(Arguments& arguments) {
  const Parameters given("sameas", arguments, {"value", "other"}, 2);
  return given[0].is_same_as(given[1]);
}

bool test_in(Arguments& arguments) {
  const Parameters given("in", arguments, {"value", "seq"}, 2);
  return contains(given[1], given[0]);
}

template <bool same>
bool test_equal(Arguments& arguments) {
  const Parameters given("eq", arguments, {"", ""}, 2);
  return equal(given[0], given[1]) == same;
}

template <Order order>
bool test_order(Arguments& arguments) {
  const Parameters given("comparison", arguments, {"", ""}, 2);
  return ordered(given[0], order, given[1]);
}

}  // namespace

Test find_test(std::string_view name) {
  static const std::unordered_map<std::string_view, Test> tests = {
      {"odd", test_kind<is_odd>},
      {"even", test_kind<is_even>},
      {"divisibleby", test_divisibleby},
      {"defined", test_kind<is_defined>},
      {"undefined", test_kind<is_undefined>},
      {"none", test_kind<is_none>},
      {"boolean", test_kind<is_boolean>},
      {"false", test_kind<is_false>},
      {"true", test_kind<is_true>},
      {"integer", test_kind<is_integer>},
      {"float", test_kind<is_float>},
      {"string", test_kind<is_string>},
      {"mapping", test_kind<is_mapping>},
      {"number", test_kind<is_number>},
      {"sequence", test_kind<is_sequence>},
      {"iterable", test_kind<is_iterable>},
      {"callable", test_kind<is_callable>},
      {"sameas", test_sameas},
      {"in", test_in},
      {"==", test_equal<true>},
      {"eq", test_equal<true>},
      {"equalto", test_equal<true>},
      {"!=", test_equal<false>},
      {"ne", test_equal<false>},
      {">", test_order<Order::kGreater>},
      {"gt", test_order<Order::kGreater>},
      {"greaterthan", test_order<Order::kGreater>},
      {">=", test_order<Order::kGreaterEqual>},
      {"ge", test_order<Order::kGreaterEqual>},
      {"<", test_order<Order::kLess>},
      {"lt", test_order<Order::kLess>},
      {"lessthan", test_order<Order::kLess>},
      {"<=", test_order<Order::kLessEqual>},
      {"le", test_order<Order::kLessEqual>},
  };
  const auto found = tests.find(name);
  return found == tests.end() ? nullptr : found->second;
}

}  // namespace dpo::text::jinja
