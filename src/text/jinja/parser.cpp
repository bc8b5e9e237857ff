#include "text/jinja/parser.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "text/jinja/scope.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

using Tags = std::vector<std::string_view>;

class Parser : private ExpressionParser {
 public:
  explicit Parser(const std::string& source) : ExpressionParser(tokenize(source)) {}

  std::unique_ptr<TemplateNode> run() {
    auto node = std::make_unique<TemplateNode>();
    node->body = parse_body({});
    node->has_generation = has_generation_;
    return node;
  }

 private:
  // Parses statements and text up to a tag of `ends`, which is then the current token.
  Stmts parse_body(const Tags& ends) {
    Stmts body;
    std::unique_ptr<OutputStmt> output;
    const auto add_output = [&](OutputStmt::Part part, Position at) {
      if (!output) output = make<OutputStmt>(at);
      output->parts.push_back(std::move(part));
    };
    while (!is(TokenType::kEnd)) {
      const Position at = current().at;
      if (is(TokenType::kData)) {
        add_output({next().text, nullptr}, at);
      } else if (is(TokenType::kVariableBegin)) {
        next();
        add_output({"", parse_tuple({})}, at);
        expect(TokenType::kVariableEnd, "'}}'");
      } else {
        if (output) body.push_back(std::move(output));
        output = nullptr;
        expect(TokenType::kBlockBegin, "'{%'");
        if (is_end(ends)) return body;
        body.push_back(parse_statement(ends));
        expect(TokenType::kBlockEnd, "'%}'");
      }
    }
    if (!ends.empty()) fail(fmt::format("expected one of the tags: {}", fmt::join(ends, ", ")));
    if (output) body.push_back(std::move(output));
    return body;
  }

  bool is_end(const Tags& ends) const {
    return is(TokenType::kName) && std::find(ends.begin(), ends.end(), current().text) != ends.end();
  }

  // Parses the body after the head of a statement, up to one of the tags. Returns the name of the tag.
  std::string parse_block(Stmts& body, const Tags& ends) {
    skip_operator(":");
    expect(TokenType::kBlockEnd, "'%}'");
    body = parse_body(ends);
    return next().text;
  }

  StmtPtr parse_statement(const Tags& ends) {
    const Nesting nesting(*this);
    const Position at = current().at;
    const std::string tag = expect(TokenType::kName, "the name of a tag").text;
    if (tag == "if") return parse_if(at);
    if (tag == "for") return parse_for(at);
    if (tag == "set") return parse_set(at);
    if (tag == "macro") return parse_macro(at);
    if (tag == "call") return parse_call_block(at);
    if (tag == "generation") return parse_generation(at);
    if (tag == "filter") return parse_filter_block(at);
    if (tag == "break" || tag == "continue") {
      auto node = make<LoopControlStmt>(at);
      node->flow = tag == "break" ? Flow::kBreak : Flow::kContinue;
      return node;
    }
    if (is_unsupported("tag", tag)) fail(unsupported("tag", tag), at);
    fail(ends.empty() ? fmt::format("unknown tag '{}'", tag)
                      : fmt::format("unknown tag '{}'; expected one of {}", tag, fmt::join(ends, ", ")),
         at);
  }

  StmtPtr parse_if(Position at) {
    auto node = make<IfStmt>(at);
    while (true) {
      IfStmt::Branch branch;
      branch.test = parse_tuple({.conditional = false});
      const std::string end = parse_block(branch.body, {"elif", "else", "endif"});
      node->branches.push_back(std::move(branch));
      if (end == "elif") continue;
      if (end == "else") parse_block(node->otherwise, {"endif"});
      return node;
    }
  }

  StmtPtr parse_for(Position at) {
    auto node = make<ForStmt>(at);
    node->target = parse_target({.end_name = "in"});
    if (!skip_name("in")) fail(fmt::format("expected 'in', got '{}'", describe(current())));
    node->iterable = parse_tuple({.conditional = false, .end_name = "recursive"});
    if (skip_name("if")) node->test = parse_expression();
    if (is_name("recursive")) fail(unsupported("loop modifier", "recursive"));
    if (parse_block(node->body, {"endfor", "else"}) == "else") parse_block(node->otherwise, {"endfor"});
    return node;
  }

  StmtPtr parse_set(Position at) {
    ExprPtr target = parse_target({.with_namespace = true});
    if (skip_operator("=")) {
      auto node = make<SetStmt>(at);
      node->target = std::move(target);
      node->value = parse_tuple({});
      return node;
    }
    auto node = make<SetBlockStmt>(at);
    node->target = std::move(target);
    node->filter = parse_filters(nullptr, false);
    parse_block(node->body, {"endset"});
    return node;
  }

  void parse_signature(MacroBody& macro) {
    std::set<std::string> names;
    expect_operator("(");
    while (!is_operator(")")) {
      if (!macro.parameters.empty()) expect_operator(",");
      auto name = parse_name_target();
      name->use = Name::Use::kParameter;
      if (!names.insert(name->name).second)
        fail(fmt::format("duplicate argument '{}'", name->name), name->at);
      if (skip_operator("="))
        macro.defaults.push_back(parse_expression());
      else if (!macro.defaults.empty())
        fail("an argument without a default follows one with a default");
      macro.parameters.push_back(std::move(name));
    }
    expect_operator(")");
  }

  StmtPtr parse_macro(Position at) {
    auto node = make<MacroStmt>(at);
    node->name = parse_name_target()->name;
    parse_signature(*node->macro);
    parse_block(node->macro->body, {"endmacro"});
    return node;
  }

  StmtPtr parse_call_block(Position at) {
    auto node = make<CallBlockStmt>(at);
    if (is_operator("(")) parse_signature(*node->macro);
    ExprPtr call = parse_expression();
    if (!dynamic_cast<CallExpr*>(call.get())) fail("expected a call", at);
    node->call.reset(static_cast<CallExpr*>(call.release()));
    parse_block(node->macro->body, {"endcall"});
    return node;
  }

  StmtPtr parse_generation(Position at) {
    has_generation_ = true;
    auto node = make<CallBlockStmt>(at);
    parse_block(node->macro->body, {"endgeneration"});
    return node;
  }

  StmtPtr parse_filter_block(Position at) {
    auto node = make<FilterBlockStmt>(at);
    node->filter = parse_filters(nullptr, true);
    parse_block(node->body, {"endfilter"});
    return node;
  }

  bool has_generation_ = false;
};

}  // namespace

std::unique_ptr<TemplateNode> parse(const std::string& source) {
  std::unique_ptr<TemplateNode> root = Parser(source).run();
  resolve(*root);
  return root;
}

}  // namespace dpo::text::jinja
