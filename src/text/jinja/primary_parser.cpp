#include <set>

#include <fmt/format.h>

#include "text/jinja/methods.h"
#include "text/jinja/parser.h"

namespace dpo::text::jinja {
ExprPtr ExpressionParser::parse_primary(bool with_namespace) {
  const Token& token = current();
  if (is(TokenType::kName)) return parse_name(with_namespace);
  auto literal = make<Literal>(token.at);
  if (is(TokenType::kString)) {
    std::string text;
    while (is(TokenType::kString)) text += next().text;
    literal->value = Value(std::move(text));
    return literal;
  }
  if (is(TokenType::kInteger) || is(TokenType::kFloat)) {
    literal->value = next().number;
    return literal;
  }
  if (skip_operator("(")) {
    ExprPtr inner = parse_tuple({.in_parentheses = true});
    expect_operator(")");
    return inner;
  }
  if (is_operator("[")) return parse_list();
  if (is_operator("{")) return parse_dict();
  fail(fmt::format("unexpected '{}'", describe(token)));
}

ExprPtr ExpressionParser::parse_name(bool with_namespace) {
  const Token& token = next();
  auto literal = make<Literal>(token.at);
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    literal->value = token.text == "true" || token.text == "True";
    return literal;
  }
  if (token.text == "none" || token.text == "None") return literal;
  if (with_namespace && skip_operator(".")) {
    auto node = make<NamespaceAttribute>(token.at);
    node->name = token.text;
    node->attribute = expect(TokenType::kName, "a name").text;
    return node;
  }
  auto node = make<Name>(token.at);
  node->name = token.text;
  return node;
}

ExprPtr ExpressionParser::parse_tuple(TupleRules rules) {
  const Nesting nesting(*this);
  auto node = make<TupleExpr>(current().at);
  bool is_tuple = false;
  const auto at_end = [&] {
    return is(TokenType::kVariableEnd) || is(TokenType::kBlockEnd) || is_operator(")") ||
           (!rules.end_name.empty() && is_name(rules.end_name));
  };
  while (true) {
    if (!node->items.empty()) expect_operator(",");
    if (at_end()) break;
    node->items.push_back(rules.simplified ? parse_primary(rules.with_namespace)
                                           : parse_expression(rules.conditional));
    if (!is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!node->items.empty()) return std::move(node->items[0]);
    if (!rules.in_parentheses) fail(fmt::format("expected an expression, got '{}'", describe(current())));
  }
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_list() {
  auto node = make<ListExpr>(next().at);
  while (!is_operator("]")) {
    if (!node->items.empty()) expect_operator(",");
    if (is_operator("]")) break;
    node->items.push_back(parse_expression());
  }
  expect_operator("]");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_dict() {
  auto node = make<DictExpr>(next().at);
  while (!is_operator("}")) {
    if (!node->entries.empty()) expect_operator(",");
    if (is_operator("}")) break;
    ExprPtr key = parse_expression();
    expect_operator(":");
    ExprPtr value = parse_expression();
    node->entries.emplace_back(std::move(key), std::move(value));
  }
  expect_operator("}");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (is_operator("."))
      node = parse_attribute(std::move(node));
    else if (is_operator("["))
      node = parse_subscript(std::move(node));
    else if (is_operator("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

ExprPtr ExpressionParser::parse_filter_or_test(ExprPtr node) {
  while (true) {
    if (is_operator("|"))
      node = parse_filters(std::move(node), false);
    else if (is_name("is"))
      node = parse_test(std::move(node));
    else if (is_operator("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

ExprPtr ExpressionParser::parse_attribute(ExprPtr object) {
  const Position at = next().at;
  if (is(TokenType::kName)) {
    auto node = make<AttributeExpr>(at);
    node->object = std::move(object);
    node->name = next().text;
    node->hides_key = node->name.starts_with("__") || find_dict_method(Dict(), node->name);
    return finish(std::move(node));
  }
  if (!is(TokenType::kInteger)) fail("expected name or number");
  auto key = make<Literal>(current().at);
  key->value = next().number;
  auto node = make<ItemExpr>(at);
  node->object = std::move(object);
  node->key = std::move(key);
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const Position at = next().at;
  auto slice = make<SliceExpr>(at);
  const auto part = [&]() -> ExprPtr {
    return is_operator(":") || is_operator("]") || is_operator(",") ? nullptr : parse_expression();
  };
  auto keys = make<TupleExpr>(at);
  while (!is_operator("]")) {
    if (!keys->items.empty()) expect_operator(",");
    ExprPtr first = is_operator(":") ? nullptr : parse_expression();
    if (!skip_operator(":")) {
      keys->items.push_back(std::move(first));
      continue;
    }
    slice->start = std::move(first);
    slice->stop = part();
    if (skip_operator(":")) slice->step = part();
    // Python rejects a slice in a list of several keys.
    if (!keys->items.empty() || !is_operator("]")) fail("a slice must be the only subscript");
    next();
    slice->object = std::move(object);
    return finish(std::move(slice));
  }
  next();
  auto node = make<ItemExpr>(at);
  node->object = std::move(object);
  node->key = keys->items.size() == 1 ? std::move(keys->items[0]) : finish(std::move(keys));
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  auto node = make<CallExpr>(current().at);
  node->callee = std::move(callee);
  node->arguments = parse_arguments();
  return finish(std::move(node));
}

void ExpressionParser::check_names(const CallArguments& arguments, Position at) const {
  std::set<std::string> names;
  for (const auto& [name, value] : arguments.named)
    if (!names.insert(name).second) fail("keyword argument repeated", at);
}

CallArguments ExpressionParser::parse_arguments() {
  const Position at = current().at;
  expect_operator("(");
  CallArguments arguments;
  const auto ensure = [&](bool valid) {
    if (!valid) fail("invalid syntax for function call expression", at);
  };
  for (bool first = true; !is_operator(")"); first = false) {
    if (!first) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    if (skip_operator("*")) {
      ensure(!arguments.list && !arguments.dict);
      arguments.list = parse_expression();
    } else if (skip_operator("**")) {
      ensure(!arguments.dict);
      arguments.dict = parse_expression();
    } else if (is(TokenType::kName) && look().type == TokenType::kOperator && look().text == "=") {
      ensure(!arguments.dict);
      std::string name = next().text;
      next();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(!arguments.list && !arguments.dict && arguments.named.empty());
      arguments.positional.push_back(parse_expression());
    }
  }
  expect_operator(")");
  check_names(arguments, at);
  return arguments;
}

std::unique_ptr<FilterExpr> ExpressionParser::parse_filters(ExprPtr input, bool inline_first) {
  std::unique_ptr<FilterExpr> node;
  while (is_operator("|") || inline_first) {
    if (!inline_first) next();
    inline_first = false;
    auto filter = make<FilterExpr>(current().at);
    filter->name = expect(TokenType::kName, "the name of a filter").text;
    while (skip_operator(".")) filter->name += "." + expect(TokenType::kName, "a name").text;
    if (is_operator("(")) filter->arguments = parse_arguments();
    filter->input = node ? std::move(node) : std::move(input);
    filter->filter = find_filter(filter->name);
    node = finish(std::move(filter));
  }
  return node;
}

ExprPtr ExpressionParser::parse_test(ExprPtr input) {
  const Position at = next().at;
  const bool negated = skip_name("not");
  auto node = make<TestExpr>(at);
  node->name = expect(TokenType::kName, "the name of a test").text;
  while (skip_operator(".")) node->name += "." + expect(TokenType::kName, "a name").text;
  node->input = std::move(input);
  node->test = find_test(node->name);
  const bool value_follows = is(TokenType::kName) || is(TokenType::kString) || is(TokenType::kInteger) ||
                             is(TokenType::kFloat) || is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    node->arguments = parse_arguments();
  } else if (value_follows && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail("tests cannot be chained with is");
    node->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  ExprPtr test = finish(std::move(node));
  if (!negated) return test;
  auto opposite = make<UnaryExpr>(at);
  opposite->operation = '!';
  opposite->operand = std::move(test);
  return finish(std::move(opposite));
}

void ExpressionParser::make_target(Expr& target) const {
  if (auto* name = dynamic_cast<Name*>(&target)) {
    name->use = Name::Use::kStore;
    return;
  }
  if (dynamic_cast<NamespaceAttribute*>(&target)) return;
  auto* tuple = dynamic_cast<TupleExpr*>(&target);
  if (!tuple || dynamic_cast<ListExpr*>(&target)) fail("this cannot be assigned to", target.at);
  for (const ExprPtr& item : tuple->items) make_target(*item);
}

ExprPtr ExpressionParser::parse_target(TupleRules rules) {
  rules.simplified = true;
  ExprPtr target = parse_tuple(rules);
  make_target(*target);
  return target;
}

std::unique_ptr<Name> ExpressionParser::parse_name_target() {
  static const std::set<std::string> constants = {"true", "false", "none", "True", "False", "None"};
  const Token& token = expect(TokenType::kName, "a name");
  if (constants.contains(token.text)) fail("this cannot be assigned to", token.at);
  auto node = make<Name>(token.at);
  node->name = token.text;
  node->use = Name::Use::kStore;
  return node;
}

}  // namespace dpo::text::jinja
