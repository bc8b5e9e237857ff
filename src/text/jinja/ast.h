// The nodes of a template. The parser makes them, the resolver (scope.h) says where each variable lives, and
// a rendering evaluates expressions and executes statements.
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

// A variable: in the function that runs, or in one of those around it.
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
  kWith,
  kSet,
  kSetBlock,
};

struct Node {
  using Visit = std::function<void(Node&)>;

  virtual ~Node() = default;
  virtual NodeType type() const { return NodeType::kOther; }
  virtual void each_child(const Visit&) {}  // in the order of Jinja2's fields

  Position at;
};

struct Expr : Node {
  virtual Value evaluate(Rendering& rendering) const = 0;
  std::uint32_t height = 1;  // of the tree of expressions
};
using ExprPtr = std::unique_ptr<Expr>;
using Exprs = std::vector<ExprPtr>;

// How the execution continues after a statement.
enum class Flow { kNext, kBreak, kContinue };

struct Stmt : Node {
  virtual Flow execute(Rendering& rendering) const = 0;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Stmts = std::vector<StmtPtr>;

// ---- expressions ----

struct Literal : Expr {
  Value value;
  Value evaluate(Rendering&) const override { return value; }
};

struct Name : Expr {
  enum class Use : std::uint8_t { kLoad, kStore, kParameter };
  std::string name;
  Use use = Use::kLoad;
  Slot slot;
  NodeType type() const override { return NodeType::kName; }
  Value evaluate(Rendering& rendering) const override;
};

// namespace.attribute, as a target of set
struct NamespaceAttribute : Expr {
  std::string name, attribute;
  NodeType type() const override { return NodeType::kNamespaceAttribute; }
  Value evaluate(Rendering& rendering) const override;
};

struct TupleExpr : Expr {
  Exprs items;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct ListExpr : TupleExpr {
  Value evaluate(Rendering& rendering) const override;
};

struct DictExpr : Expr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct ArithmeticExpr : Expr {
  Arithmetic operation;
  ExprPtr left, right;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct UnaryExpr : Expr {
  char operation;  // + - or ! for not
  ExprPtr operand;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct LogicExpr : Expr {
  bool is_and;
  ExprPtr left, right;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct CompareExpr : Expr {
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct ConcatExpr : Expr {
  Exprs parts;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct ConditionalExpr : Expr {
  ExprPtr test, if_true, if_false;  // the last may be absent
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct AttributeExpr : Expr {
  ExprPtr object;
  std::string name;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct ItemExpr : Expr {
  ExprPtr object, key;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct SliceExpr : Expr {
  ExprPtr object, start, stop, step;  // all but the object may be absent
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

struct CallArguments {
  Exprs positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr list, dict;  // *list and **dict; may be absent

  void each_child(const Node::Visit& visit);
  void evaluate(Rendering& rendering, Arguments& out) const;
};

struct CallExpr : Expr {
  ExprPtr callee;
  CallArguments arguments;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override { return call(rendering, nullptr); }
  Value call(Rendering& rendering, const Value* caller) const;
};

struct FilterExpr : Expr {
  ExprPtr input;  // absent in a filter block
  std::string name;
  CallArguments arguments;
  Filter filter = nullptr;  // nullptr: there is none of that name
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override { return apply(rendering, nullptr); }
  Value apply(Rendering& rendering, const Value* block) const;  // the content of the filter block
};

struct TestExpr : Expr {
  ExprPtr input;
  std::string name;
  CallArguments arguments;
  Test test = nullptr;
  void each_child(const Visit& visit) override;
  Value evaluate(Rendering& rendering) const override;
};

// ---- statements ----

// What happens to variables where a scope is entered.
struct Load {
  enum class From : std::uint8_t { kContext, kOuter, kNothing };
  From from;
  std::uint16_t index;  // in the function that runs
  std::string name;     // kContext
  Slot outer;           // kOuter
};

struct Scope {
  std::vector<Load> loads;
  std::vector<std::uint16_t> variables;  // all of the scope
};

// The variables of a function: the template itself, a macro, a recursive loop, the filter of a loop.
struct FunctionInfo {
  std::uint16_t variables = 0;
};

// What is assigned to, with its variables resolved.
struct Target {
  enum class Kind : std::uint8_t { kVariable, kAttribute, kTuple };
  Kind kind;
  Slot slot;
  std::string attribute;
  std::vector<Target> items;
};

struct OutputStmt : Stmt {
  struct Part {
    std::string text;
    ExprPtr expr;  // absent: the text
  };
  std::vector<Part> parts;
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
};

struct IfStmt : Stmt {
  struct Branch {
    ExprPtr test;
    Stmts body;
  };
  std::vector<Branch> branches;
  Stmts otherwise;
  NodeType type() const override { return NodeType::kIf; }
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
};

struct ForStmt : Stmt {
  ExprPtr target, iterable, test;
  Stmts body, otherwise;
  bool recursive = false;

  bool has_loop = false;  // the variable `loop` is used
  Slot loop;
  Target body_target, test_target;
  Scope body_scope, else_scope, test_scope;
  FunctionInfo test_function, function;  // the latter if recursive
  NodeType type() const override { return NodeType::kFor; }
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
  Flow run(Rendering& rendering, const Value& items, std::uint32_t depth) const;
};

struct SetStmt : Stmt {
  ExprPtr target, value;
  Target resolved;
  std::vector<Slot> namespaces;  // of the targets that are attributes
  NodeType type() const override { return NodeType::kSet; }
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
};

struct SetBlockStmt : Stmt {
  ExprPtr target;
  std::unique_ptr<FilterExpr> filter;  // may be absent
  Stmts body;
  Target resolved;
  Scope scope;
  NodeType type() const override { return NodeType::kSetBlock; }
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
};

// Parameters and body of a macro, or of what a call block passes as its caller.
struct MacroBody {
  std::vector<std::unique_ptr<Name>> parameters;
  Exprs defaults;  // of the last parameters
  Stmts body;

  Scope scope;
  FunctionInfo function;
  std::optional<std::uint16_t> caller, kwargs, varargs;  // their variables, if the body uses them
  bool explicit_caller = false;                          // one of the parameters
};

struct MacroStmt : Stmt {
  std::string name;
  std::shared_ptr<MacroBody> macro = std::make_shared<MacroBody>();
  Slot slot;
  NodeType type() const override { return NodeType::kMacro; }
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
};

struct CallBlockStmt : Stmt {
  std::unique_ptr<CallExpr> call;  // absent: a generation block
  std::shared_ptr<MacroBody> macro = std::make_shared<MacroBody>();
  NodeType type() const override { return NodeType::kCallBlock; }
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
};

struct FilterBlockStmt : Stmt {
  std::unique_ptr<FilterExpr> filter;
  Stmts body;
  Scope scope;
  NodeType type() const override { return NodeType::kFilterBlock; }
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
};

struct WithStmt : Stmt {
  Exprs targets, values;
  Stmts body;
  std::vector<Target> resolved;
  Scope scope;
  NodeType type() const override { return NodeType::kWith; }
  void each_child(const Visit& visit) override;
  Flow execute(Rendering& rendering) const override;
};

struct LoopControlStmt : Stmt {
  Flow flow;
  Flow execute(Rendering&) const override { return flow; }
};

// include, import and extends: there is nothing to load from, which is an error where it is reached.
struct LoadStmt : Stmt {
  std::string tag;
  ExprPtr source;
  Flow execute(Rendering& rendering) const override;
  void each_child(const Visit& visit) override { visit(*source); }
};

struct TemplateNode : Node {
  Stmts body;
  Scope scope;
  FunctionInfo function;
  bool has_generation = false;
  void each_child(const Visit& visit) override;
};

}  // namespace dpo::text::jinja
