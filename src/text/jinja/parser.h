// Parses the tokens of a template like Jinja2 with the extensions of transformers: break, continue,
// generation.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/statements.h"

namespace dpo::text::jinja {

inline constexpr std::uint32_t kMaxHeight = 400;  // maximum height of an expression tree

// Parses a template. Throws SyntaxError.
std::unique_ptr<TemplateNode> parse(const std::string& source);

// Parses expressions. Statements are parsed in parser.cpp.
class ExpressionParser {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& next();
  bool is(TokenType type) const { return current().type == type; }
  bool is_operator(std::string_view text) const { return is(TokenType::kOperator) && current().text == text; }
  bool is_name(std::string_view text) const { return is(TokenType::kName) && current().text == text; }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  const Token& expect(TokenType type, std::string_view what);
  [[noreturn]] void fail(const std::string& message) const { fail(message, current().at); }
  [[noreturn]] void fail(const std::string& message, Position at) const { throw SyntaxError(at, message); }

  template <class T>
  std::unique_ptr<T> make(Position at) const {
    auto node = std::make_unique<T>();
    node->at = at;
    return node;
  }

  struct TupleRules {
    bool simplified = false;         // only names and literals
    bool conditional = true;         // allow `a if b else c`
    bool in_parentheses = false;     // allow an empty tuple
    bool with_namespace = false;     // namespace.attribute is a target
    std::string_view end_name = {};  // a name that ends the tuple
  };
  ExprPtr parse_expression(bool conditional = true);
  ExprPtr parse_tuple(TupleRules rules);
  ExprPtr parse_target(TupleRules rules);
  std::unique_ptr<Name> parse_name_target();
  std::unique_ptr<FilterExpr> parse_filters(ExprPtr input, bool inline_first);

  // Limits the nesting of the template's text, and with it the stack.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  bool parse_comparison(CompareExpr& compare);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filter_or_test(ExprPtr node);
  ExprPtr parse_attribute(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_test(ExprPtr input);
  CallArguments parse_arguments();
  void check_names(const CallArguments& arguments, Position at) const;
  void make_target(Expr& target) const;

  // Checks the height of the expression tree at this node.
  template <class T>
  std::unique_ptr<T> finish(std::unique_ptr<T> node) const {
    node->each_child(
        [&](Node& child) { node->height = std::max(node->height, static_cast<Expr&>(child).height + 1); });
    if (node->height > kMaxHeight) fail("the expression is too long", node->at);
    return node;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace dpo::text::jinja
