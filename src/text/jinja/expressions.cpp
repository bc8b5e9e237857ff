#include <algorithm>

#include <fmt/format.h>

#include "text/jinja/expressions.h"
#include "text/jinja/python.h"
#include "text/jinja/rendering.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

Values evaluate_all(Rendering& rendering, const Exprs& exprs) {
  Values values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) values.push_back(rendering.evaluate(*expr));
  return values;
}

Value evaluate_or_none(Rendering& rendering, const ExprPtr& expr) {
  return expr ? rendering.evaluate(*expr) : Value();
}

bool holds(const Value& a, Comparison comparison, const Value& b) {
  switch (comparison) {
    case Comparison::kEqual: return equal(a, b);
    case Comparison::kNotEqual: return !equal(a, b);
    case Comparison::kLess: return ordered(a, Order::kLess, b);
    case Comparison::kLessEqual: return ordered(a, Order::kLessEqual, b);
    case Comparison::kGreater: return ordered(a, Order::kGreater, b);
    case Comparison::kGreaterEqual: return ordered(a, Order::kGreaterEqual, b);
    case Comparison::kIn: return contains(b, a);
    case Comparison::kNotIn: return !contains(b, a);
  }
  return false;
}

void add_named(Arguments& arguments, const Value& dict) {
  if (dict.is_undefined()) refuse_undefined(dict);
  if (!dict.is_dict())
    throw Failure(fmt::format("argument after ** must be a mapping, not {}", type_name(dict)));
  for (const auto& [key, value] : dict.dict().entries()) {
    if (!key.is_string()) throw Failure("keywords must be strings");
    const auto same = [&](const auto& named) { return named.first == key.string(); };
    if (std::any_of(arguments.named.begin(), arguments.named.end(), same))
      throw Failure(fmt::format("got multiple values for keyword argument '{}'", key.string()));
    arguments.named.emplace_back(key.string(), value);
  }
}

}  // namespace

Value Name::evaluate(Rendering& rendering) const {
  const Value& value = rendering.variable(slot);
  if (value.kind() == Kind::kMissing) return Value::undefined({"", "", name});
  return value;
}

const Value* Name::variable(Rendering& rendering) const {
  const Value& value = rendering.variable(slot);
  return value.kind() == Kind::kMissing ? nullptr : &value;
}

Value NamespaceAttribute::evaluate(Rendering&) const { return {}; }  // only a target, never evaluated

Value TupleExpr::evaluate(Rendering& rendering) const { return Value::tuple(evaluate_all(rendering, items)); }

Value ListExpr::evaluate(Rendering& rendering) const { return Value::list(evaluate_all(rendering, items)); }

Value DictExpr::evaluate(Rendering& rendering) const {
  Dict dict;
  for (const auto& [key, value] : entries) {
    const Value name = rendering.evaluate(*key);
    const Value entry = rendering.evaluate(*value);
    rendering.at = at;
    dict.set(name, entry);
  }
  return dict;
}

std::optional<Value> Expr::evaluate_into(Rendering& rendering, std::string& out) const {
  Value value = evaluate(rendering);
  if (!value.is_string() || value.is_markup()) return value;
  charge_text(out.size(), value.string().size());
  out += value.string();
  return std::nullopt;
}

// Writes a chain of additions piece by piece, because templates mostly add texts, which are often long.
std::optional<Value> ArithmeticExpr::evaluate_into(Rendering& rendering, std::string& out) const {
  if (operation != Arithmetic::kAdd) return Expr::evaluate_into(rendering, out);
  const std::size_t begin = out.size();
  std::optional<Value> a = rendering.evaluate_into(*left, out);
  const std::optional<Value> b = a ? rendering.evaluate(*right) : rendering.evaluate_into(*right, out);
  rendering.at = at;
  if (!a && !b) return std::nullopt;
  if (!a) {
    a = Value(out.substr(begin));
    out.resize(begin);
  }
  return calculate(*a, operation, *b);
}

Value ArithmeticExpr::evaluate(Rendering& rendering) const {
  if (operation == Arithmetic::kAdd) {
    std::string text;
    std::optional<Value> value = evaluate_into(rendering, text);
    return value ? std::move(*value) : Value(std::move(text));
  }
  const Value a = rendering.evaluate(*left);
  const Value b = rendering.evaluate(*right);
  rendering.at = at;
  return calculate(a, operation, b);
}

Value UnaryExpr::evaluate(Rendering& rendering) const {
  const Value value = rendering.evaluate(*operand);
  rendering.at = at;
  if (operation == '!') return !truth(value);
  return operation == '-' ? negate(value) : plus(value);
}

Value LogicExpr::evaluate(Rendering& rendering) const {
  Value value = rendering.evaluate(*left);
  return truth(value) == is_and ? rendering.evaluate(*right) : value;
}

Value CompareExpr::evaluate(Rendering& rendering) const {
  Value value = rendering.evaluate(*first);
  for (const auto& [comparison, operand] : rest) {
    Value other = rendering.evaluate(*operand);
    rendering.at = at;
    if (!holds(value, comparison, other)) return false;
    value = std::move(other);
  }
  return true;
}

Value ConcatExpr::evaluate(Rendering& rendering) const {
  const Values values = evaluate_all(rendering, parts);
  rendering.at = at;
  std::string text;
  for (const Value& value : values) append_str(text, value);
  return text;
}

Value ConditionalExpr::evaluate(Rendering& rendering) const {
  if (truth(rendering.evaluate(*test))) return rendering.evaluate(*if_true);
  if (if_false) return rendering.evaluate(*if_false);
  return Value::undefined(
      {fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                   "defined.",
                   at.line),
       "", ""});
}

Value AttributeExpr::evaluate(Rendering& rendering) const {
  const Value* const variable = object->variable(rendering);
  if (variable) spend();
  const Value made = variable ? Value() : rendering.evaluate(*object);
  const Value& value = variable ? *variable : made;
  rendering.at = at;
  if (!hides_key)
    if (const Value* const found = value.find(name)) return *found;
  return get_attribute(value, name);
}

Value ItemExpr::evaluate(Rendering& rendering) const {
  const Value value = rendering.evaluate(*object);
  const Value wanted = rendering.evaluate(*key);
  rendering.at = at;
  return get_item(value, wanted);
}

Value SliceExpr::evaluate(Rendering& rendering) const {
  const Value value = rendering.evaluate(*object);
  const Value first = evaluate_or_none(rendering, start);
  const Value last = evaluate_or_none(rendering, stop);
  const Value by = evaluate_or_none(rendering, step);
  rendering.at = at;
  return slice(value, first, last, by);
}

void CallArguments::evaluate(Rendering& rendering, Arguments& out) const {
  for (const ExprPtr& expr : positional) out.positional.push_back(rendering.evaluate(*expr));
  for (const auto& [name, expr] : named) out.named.emplace_back(name, rendering.evaluate(*expr));
  if (list)
    for (Value& item : to_list(rendering.evaluate(*list))) out.positional.push_back(item);
  if (dict) add_named(out, rendering.evaluate(*dict));
}

Value CallExpr::call(Rendering& rendering, const Value* caller) const {
  const Value function = rendering.evaluate(*callee);
  Arguments given;
  arguments.evaluate(rendering, given);
  if (caller) given.named.emplace_back("caller", *caller);
  rendering.at = at;
  if (function.is_undefined()) refuse_undefined(function);
  auto* callable = object_as<Callable>(function);
  if (!callable) throw Failure(fmt::format("'{}' object is not callable", type_name(function)));
  return callable->call(std::move(given));
}

// Applies the filter. In a filter block the input of the innermost filter is the content of the block.
Value FilterExpr::apply(Rendering& rendering, const Value* block) const {
  Arguments given;
  if (!input)
    given.positional.push_back(*block);
  else if (block)
    given.positional.push_back(static_cast<const FilterExpr&>(*input).apply(rendering, block));
  else
    given.positional.push_back(rendering.evaluate(*input));
  arguments.evaluate(rendering, given);
  rendering.at = at;
  if (!filter) throw Failure(not_found("filter", name));
  return filter(given);
}

Value TestExpr::evaluate(Rendering& rendering) const {
  Arguments given;
  given.positional.push_back(rendering.evaluate(*input));
  arguments.evaluate(rendering, given);
  rendering.at = at;
  if (!test) throw Failure(not_found("test", name));
  return test(given);
}

}  // namespace dpo::text::jinja
