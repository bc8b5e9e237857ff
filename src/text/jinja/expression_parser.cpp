#include <algorithm>

#include <fmt/format.h>

#include "text/jinja/parser.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

constexpr int kMaxNesting = 100;

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting) {
    --parser_.nesting_;
    parser_.fail("the template is nested too deeply");
  }
}

const Token& ExpressionParser::next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  next();
  return true;
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail(fmt::format("expected '{}', got '{}'", text, describe(current())));
}

const Token& ExpressionParser::expect(TokenType type, std::string_view what) {
  if (!is(type)) fail(fmt::format("expected {}, got '{}'", what, describe(current())));
  return next();
}

ExprPtr ExpressionParser::parse_expression(bool conditional) {
  const Nesting nesting(*this);
  return conditional ? parse_conditional() : parse_or();
}

ExprPtr ExpressionParser::parse_conditional() {
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    auto node = make<ConditionalExpr>(value->at);
    node->test = parse_or();
    node->if_true = std::move(value);
    if (skip_name("else")) {
      const Nesting nesting(*this);
      node->if_false = parse_conditional();
    }
    value = finish(std::move(node));
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    auto node = make<LogicExpr>(left->at);
    node->is_and = false;
    node->left = std::move(left);
    node->right = parse_and();
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    auto node = make<LogicExpr>(left->at);
    node->is_and = true;
    node->left = std::move(left);
    node->right = parse_not();
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Nesting nesting(*this);
  auto node = make<UnaryExpr>(next().at);
  node->operation = '!';
  node->operand = parse_not();
  return finish(std::move(node));
}

bool ExpressionParser::parse_comparison(CompareExpr& compare) {
  static constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
      {"==", Comparison::kEqual},     {"!=", Comparison::kNotEqual}, {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual}, {">", Comparison::kGreater},   {">=", Comparison::kGreaterEqual}};
  for (const auto& [text, comparison] : kComparisons)
    if (skip_operator(text)) {
      compare.rest.emplace_back(comparison, parse_sum());
      return true;
    }
  if (skip_name("in")) {
    compare.rest.emplace_back(Comparison::kIn, parse_sum());
    return true;
  }
  if (is_name("not") && look().type == TokenType::kName && look().text == "in") {
    next();
    next();
    compare.rest.emplace_back(Comparison::kNotIn, parse_sum());
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::parse_compare() {
  auto node = make<CompareExpr>(current().at);
  node->first = parse_sum();
  while (parse_comparison(*node)) {
  }
  if (node->rest.empty()) return std::move(node->first);
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (is_operator("+") || is_operator("-")) {
    auto node = make<ArithmeticExpr>(current().at);
    node->operation = next().text == "+" ? Arithmetic::kAdd : Arithmetic::kSubtract;
    node->left = std::move(left);
    node->right = parse_concat();
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  auto node = make<ConcatExpr>(current().at);
  node->parts.push_back(parse_product());
  while (skip_operator("~")) node->parts.push_back(parse_product());
  if (node->parts.size() == 1) return std::move(node->parts[0]);
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, Arithmetic> kProducts[] = {{"*", Arithmetic::kMultiply},
                                                                          {"/", Arithmetic::kDivide},
                                                                          {"//", Arithmetic::kFloorDivide},
                                                                          {"%", Arithmetic::kModulo}};
  ExprPtr left = parse_unary();
  while (true) {
    if (is_operator("**")) fail(unsupported("operator", "**"));
    const auto found = std::find_if(std::begin(kProducts), std::end(kProducts),
                                    [&](const auto& product) { return is_operator(product.first); });
    if (found == std::end(kProducts)) return left;
    auto node = make<ArithmeticExpr>(next().at);
    node->operation = found->second;
    node->left = std::move(left);
    node->right = parse_unary();
    left = finish(std::move(node));
  }
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  const Nesting nesting(*this);
  ExprPtr node;
  if (is_operator("-") || is_operator("+")) {
    auto unary = make<UnaryExpr>(current().at);
    unary->operation = next().text[0];
    unary->operand = parse_unary(false);
    node = finish(std::move(unary));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filter_or_test(std::move(node)) : std::move(node);
}

}  // namespace dpo::text::jinja
