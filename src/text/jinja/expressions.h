// The nodes of a template. The parser makes them, the resolver (scope.h) finds where each variable is stored,
// and a rendering evaluates expressions and executes statements.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/builtins.h"
#include "text/jinja/lexer.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {

class Rendering;

// The location of a variable: `up` functions outwards from the running one, then an index.
struct Slot {
  std::uint16_t up = 0;
  std::uint16_t index = 0;
};

enum class NodeType : std::uint8_t {
  kOther,
  kName,
  kNamespaceAttribute,
  kIf,
  kFor,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kSet,
  kSetBlock,
};

struct Node {
  using Visit = std::function<void(Node&)>;

  // Calls `visit` with each node of pointers, which may be null, and of lists of pointers.
  template <class... Parts>
  static void visit_each(const Visit& visit, const Parts&... parts) {
    (visit_part(visit, parts), ...);
  }

  virtual ~Node() = default;
  virtual NodeType type() const { return NodeType::kOther; }
  virtual void each_child(const Visit&) {}  // in the order of Jinja2's fields

  Position at;

 private:
  template <class Part>
  static void visit_part(const Visit& visit, const Part& part) {
    if constexpr (requires { part.begin(); })
      for (const auto& node : part) visit_part(visit, node);
    else if constexpr (requires { part.first; })
      visit_each(visit, part.first, part.second);
    else if constexpr (requires { *part; })
      if (part) visit(*part);
  }
};

struct Expr : Node {
  virtual Value evaluate(Rendering& rendering) const = 0;
  // Returns a variable that has a value, to read it without a copy.
  virtual const Value* variable(Rendering&) const { return nullptr; }
  // Appends a result that is plain text to `out` without making a value. Returns any other result.
  virtual std::optional<Value> evaluate_into(Rendering& rendering, std::string& out) const;
  std::uint32_t height = 1;  // height of the expression tree
};
using ExprPtr = std::unique_ptr<Expr>;
using Exprs = std::vector<ExprPtr>;

struct Literal : Expr {
  Value value;
  Value evaluate(Rendering&) const override { return value.borrowed(); }
};

struct Name : Expr {
  enum class Use : std::uint8_t { kLoad, kStore, kParameter };
  std::string name;
  Use use = Use::kLoad;
  Slot slot;
  NodeType type() const override { return NodeType::kName; }
  Value evaluate(Rendering& rendering) const override;
  const Value* variable(Rendering& rendering) const override;
};

// namespace.attribute as a target of set
struct NamespaceAttribute : Expr {
  std::string name, attribute;
  NodeType type() const override { return NodeType::kNamespaceAttribute; }
  Value evaluate(Rendering& rendering) const override;
};

struct TupleExpr : Expr {
  Exprs items;
  void each_child(const Visit& visit) override { visit_each(visit, items); }
  Value evaluate(Rendering& rendering) const override;
};

struct ListExpr : TupleExpr {
  Value evaluate(Rendering& rendering) const override;
};

struct DictExpr : Expr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
  void each_child(const Visit& visit) override { visit_each(visit, entries); }
  Value evaluate(Rendering& rendering) const override;
};

struct ArithmeticExpr : Expr {
  Arithmetic operation;
  ExprPtr left, right;
  void each_child(const Visit& visit) override { visit_each(visit, left, right); }
  Value evaluate(Rendering& rendering) const override;
  std::optional<Value> evaluate_into(Rendering& rendering, std::string& out) const override;
};

struct UnaryExpr : Expr {
  char operation;  // + - or ! for not
  ExprPtr operand;
  void each_child(const Visit& visit) override { visit_each(visit, operand); }
  Value evaluate(Rendering& rendering) const override;
};

struct LogicExpr : Expr {
  bool is_and;
  ExprPtr left, right;
  void each_child(const Visit& visit) override { visit_each(visit, left, right); }
  Value evaluate(Rendering& rendering) const override;
};

enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct CompareExpr : Expr {
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
  void each_child(const Visit& visit) override { visit_each(visit, first, rest); }
  Value evaluate(Rendering& rendering) const override;
};

struct ConcatExpr : Expr {
  Exprs parts;
  void each_child(const Visit& visit) override { visit_each(visit, parts); }
  Value evaluate(Rendering& rendering) const override;
};

struct ConditionalExpr : Expr {
  ExprPtr test, if_true, if_false;  // the last may be absent
  void each_child(const Visit& visit) override { visit_each(visit, test, if_true, if_false); }
  Value evaluate(Rendering& rendering) const override;
};

struct AttributeExpr : Expr {
  ExprPtr object;
  std::string name;
  bool hides_key = true;  // true if dicts have an attribute of this name
  void each_child(const Visit& visit) override { visit_each(visit, object); }
  Value evaluate(Rendering& rendering) const override;
};

struct ItemExpr : Expr {
  ExprPtr object, key;
  void each_child(const Visit& visit) override { visit_each(visit, object, key); }
  Value evaluate(Rendering& rendering) const override;
};

struct SliceExpr : Expr {
  ExprPtr object, start, stop, step;  // all but the object may be absent
  void each_child(const Visit& visit) override { visit_each(visit, object, start, stop, step); }
  Value evaluate(Rendering& rendering) const override;
};

struct CallArguments {
  Exprs positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr list, dict;  // *list and **dict; may be absent

  void each_child(const Node::Visit& visit) const { Node::visit_each(visit, positional, named, list, dict); }
  void evaluate(Rendering& rendering, Arguments& out) const;
};

struct CallExpr : Expr {
  ExprPtr callee;
  CallArguments arguments;
  void each_child(const Visit& visit) override {
    visit_each(visit, callee);
    arguments.each_child(visit);
  }
  Value evaluate(Rendering& rendering) const override { return call(rendering, nullptr); }
  Value call(Rendering& rendering, const Value* caller) const;
};

struct FilterExpr : Expr {
  ExprPtr input;  // absent in a filter block
  std::string name;
  CallArguments arguments;
  Filter filter = nullptr;  // nullptr if there is none of that name
  void each_child(const Visit& visit) override {
    visit_each(visit, input);
    arguments.each_child(visit);
  }
  Value evaluate(Rendering& rendering) const override { return apply(rendering, nullptr); }
  Value apply(Rendering& rendering, const Value* block) const;  // `block`: the content of a filter block
};

struct TestExpr : Expr {
  ExprPtr input;
  std::string name;
  CallArguments arguments;
  Test test = nullptr;
  void each_child(const Visit& visit) override {
    visit_each(visit, input);
    arguments.each_child(visit);
  }
  Value evaluate(Rendering& rendering) const override;
};

}  // namespace dpo::text::jinja
