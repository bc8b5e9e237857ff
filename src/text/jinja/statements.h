// The statement nodes of a template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/expressions.h"

namespace dpo::text::jinja {

// The point at which execution continues after a statement.
enum class Flow { kNext, kBreak, kContinue };

struct Stmt : Node {
  virtual Flow execute(Rendering& rendering) const = 0;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Stmts = std::vector<StmtPtr>;

// The initial value of a variable when its scope is entered.
struct Load {
  enum class From : std::uint8_t { kContext, kOuter, kNothing };
  From from;
  std::uint16_t index;  // index in the running function
  std::string name;     // for kContext
  Slot outer;           // for kOuter
};

struct Scope {
  std::vector<Load> loads;
  std::vector<std::uint16_t> variables;  // all variables of the scope
};

// The number of variables of a function: the template itself, a macro, or the filter of a loop.
struct FunctionInfo {
  std::uint16_t variables = 0;
};

// The target of an assignment, with its variables resolved.
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
    ExprPtr expr;  // absent for text
  };
  std::vector<Part> parts;
  void each_child(const Visit& visit) override {
    for (const Part& part : parts) visit_each(visit, part.expr);
  }
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
  void each_child(const Visit& visit) override {
    for (const Branch& branch : branches) visit_each(visit, branch.test, branch.body);
    visit_each(visit, otherwise);
  }
  Flow execute(Rendering& rendering) const override;
};

struct ForStmt : Stmt {
  ExprPtr target, iterable, test;
  Stmts body, otherwise;
  bool has_loop = false;  // true if the variable `loop` is used
  Slot loop;
  Target body_target, test_target;
  Scope body_scope, else_scope, test_scope;
  FunctionInfo test_function;
  NodeType type() const override { return NodeType::kFor; }
  void each_child(const Visit& visit) override { visit_each(visit, target, iterable, body, otherwise, test); }
  Flow execute(Rendering& rendering) const override;
};

struct SetStmt : Stmt {
  ExprPtr target, value;
  Target resolved;
  std::vector<Slot> namespaces;  // namespaces of the attribute targets
  NodeType type() const override { return NodeType::kSet; }
  void each_child(const Visit& visit) override { visit_each(visit, target, value); }
  Flow execute(Rendering& rendering) const override;
};

struct SetBlockStmt : Stmt {
  ExprPtr target;
  std::unique_ptr<FilterExpr> filter;  // may be absent
  Stmts body;
  Target resolved;
  Scope scope;
  NodeType type() const override { return NodeType::kSetBlock; }
  void each_child(const Visit& visit) override { visit_each(visit, target, filter, body); }
  Flow execute(Rendering& rendering) const override;
};

// Parameters and body of a macro, or of the caller of a call block.
struct MacroBody {
  std::vector<std::unique_ptr<Name>> parameters;
  Exprs defaults;  // defaults of the last parameters
  Stmts body;

  Scope scope;
  FunctionInfo function;
  std::optional<std::uint16_t> caller;  // the variable of this name, if the body uses it
};

struct MacroStmt : Stmt {
  std::string name;
  std::shared_ptr<MacroBody> macro = std::make_shared<MacroBody>();
  Slot slot;
  NodeType type() const override { return NodeType::kMacro; }
  void each_child(const Visit& visit) override {
    visit_each(visit, macro->parameters, macro->defaults, macro->body);
  }
  Flow execute(Rendering& rendering) const override;
};

struct CallBlockStmt : Stmt {
  std::unique_ptr<CallExpr> call;  // absent in a generation block
  std::shared_ptr<MacroBody> macro = std::make_shared<MacroBody>();
  NodeType type() const override { return NodeType::kCallBlock; }
  void each_child(const Visit& visit) override {
    visit_each(visit, call, macro->parameters, macro->defaults, macro->body);
  }
  Flow execute(Rendering& rendering) const override;
};

struct FilterBlockStmt : Stmt {
  std::unique_ptr<FilterExpr> filter;
  Stmts body;
  Scope scope;
  NodeType type() const override { return NodeType::kFilterBlock; }
  void each_child(const Visit& visit) override { visit_each(visit, body, filter); }
  Flow execute(Rendering& rendering) const override;
};

struct LoopControlStmt : Stmt {
  Flow flow;
  Flow execute(Rendering&) const override { return flow; }
};

struct TemplateNode : Node {
  Stmts body;
  Scope scope;
  FunctionInfo function;
  bool has_generation = false;
  void each_child(const Visit& visit) override { visit_each(visit, body); }
};

}  // namespace dpo::text::jinja
