// The nodes of a template that are statements.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/expressions.h"

namespace dpo::text::jinja {

// How the execution continues after a statement.
enum class Flow { kNext, kBreak, kContinue };

struct Stmt : Node {
  virtual Flow execute(Rendering& rendering) const = 0;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Stmts = std::vector<StmtPtr>;

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
