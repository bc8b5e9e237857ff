#include "text/jinja/scope.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/jinja/python.h"
#include "text/jinja/symbols.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

// The context of a piece of code.
struct Frame {
  Symbols* symbols;
  bool soft = false;     // in an if, where an unknown filter is an error only when it is executed
  bool in_loop = false;  // break and continue are allowed
};

class Resolver {
 public:
  explicit Resolver(TemplateNode& root) : root_(root) {}

  void run() {
    FunctionVariables function(nullptr);
    if (uses_undeclared(root_.body, "self")) throw SyntaxError({}, unsupported("variable", "self"));
    Symbols symbols(nullptr, &function);
    symbols.analyze_all(root_.body);
    root_.scope = symbols.scope();
    visit_all(root_.body, {&symbols});
    root_.function.variables = function.size();
  }

 private:
  void visit_all(Stmts& nodes, const Frame& frame) {
    for (const StmtPtr& node : nodes) visit(*node, frame);
  }

  void visit(Node& node, const Frame& frame) {
    switch (node.type()) {
      case NodeType::kName:
        static_cast<Name&>(node).slot = slot_of(static_cast<Name&>(node).name, node, frame);
        return;
      case NodeType::kIf: return visit_if(static_cast<IfStmt&>(node), frame);
      case NodeType::kFor: return visit_for(static_cast<ForStmt&>(node), frame);
      case NodeType::kMacro: return visit_macro_stmt(static_cast<MacroStmt&>(node), frame);
      case NodeType::kCallBlock: return visit_call_block(static_cast<CallBlockStmt&>(node), frame);
      case NodeType::kFilterBlock: return visit_filter_block(static_cast<FilterBlockStmt&>(node), frame);
      case NodeType::kSet: return visit_set(static_cast<SetStmt&>(node), frame);
      case NodeType::kSetBlock: return visit_set_block(static_cast<SetBlockStmt&>(node), frame);
      default: return visit_other(node, frame);
    }
  }

  void visit_other(Node& node, const Frame& frame) {
    if (dynamic_cast<LoopControlStmt*>(&node) && !frame.in_loop)
      throw SyntaxError(node.at, "break and continue must be in a loop");
    if (const auto* filter = dynamic_cast<FilterExpr*>(&node); filter && !filter->filter && !frame.soft)
      throw SyntaxError(node.at, not_found("filter", filter->name));
    if (const auto* test = dynamic_cast<TestExpr*>(&node); test && !test->test && !frame.soft)
      throw SyntaxError(node.at, not_found("test", test->name));
    Frame inner = frame;
    if (dynamic_cast<ConditionalExpr*>(&node) || is_decided_by_constant(node)) inner.soft = true;
    node.each_child([&](Node& child) { visit(child, inner); });
  }

  // True for `1 or x` and `0 and x`: Jinja2 folds constants and never compiles x, whose filters and tests
  // need not exist.
  static bool is_decided_by_constant(Node& node) {
    const auto* const logic = dynamic_cast<LogicExpr*>(&node);
    const auto* const left = logic ? dynamic_cast<const Literal*>(logic->left.get()) : nullptr;
    return left && truth(left->value) != logic->is_and;
  }

  static Slot slot_of(const std::string& name, const Node& node, const Frame& frame) {
    if (const auto slot = frame.symbols->find(name)) return *slot;
    throw SyntaxError(node.at, fmt::format("the variable '{}' cannot be used here", name));
  }

  Target resolve_target(Expr& node, const Frame& frame) {
    if (auto* name = dynamic_cast<Name*>(&node))
      return {Target::Kind::kVariable, slot_of(name->name, node, frame), "", {}};
    if (auto* attribute = dynamic_cast<NamespaceAttribute*>(&node))
      return {Target::Kind::kAttribute, slot_of(attribute->name, node, frame), attribute->attribute, {}};
    Target target{Target::Kind::kTuple, {}, "", {}};
    for (const ExprPtr& item : static_cast<TupleExpr&>(node).items)
      target.items.push_back(resolve_target(*item, frame));
    return target;
  }

  void visit_if(IfStmt& node, Frame frame) {
    frame.soft = true;
    for (IfStmt::Branch& branch : node.branches) {
      visit(*branch.test, frame);
      visit_all(branch.body, frame);
    }
    visit_all(node.otherwise, frame);
  }

  void visit_for(ForStmt& node, const Frame& frame) {
    refuse_loop_as_target(node);
    node.has_loop = uses_undeclared(node.body, "loop");
    Symbols body(frame.symbols, frame.symbols->function());
    if (node.has_loop) body.declare_parameter("loop");
    body.store_target(*node.target);
    body.analyze_all(node.body);
    Symbols otherwise(frame.symbols, frame.symbols->function());
    otherwise.analyze_all(node.otherwise);

    if (node.test) visit_loop_test(node, frame);
    visit(*node.iterable, frame);
    const Frame body_frame{&body, false, true};
    if (node.has_loop) node.loop = slot_of("loop", node, body_frame);
    node.body_target = resolve_target(*node.target, body_frame);
    visit_all(node.body, body_frame);
    visit_all(node.otherwise, {&otherwise, false, frame.in_loop});
    node.body_scope = body.scope();
    node.else_scope = otherwise.scope();
  }

  // Resolves the filter of a loop, which is a separate generator function in Jinja2.
  void visit_loop_test(ForStmt& node, const Frame& frame) {
    FunctionVariables function(frame.symbols->function());
    Symbols symbols(frame.symbols, &function);
    symbols.store_target(*node.target);
    symbols.analyze(*node.test);
    const Frame inner{&symbols};
    node.test_target = resolve_target(*node.target, inner);
    visit(*node.test, inner);
    node.test_scope = symbols.scope();
    node.test_function.variables = function.size();
  }

  static void refuse_loop_as_target(Node& node) {
    node.each_child([](Node& child) {
      const auto* name = dynamic_cast<Name*>(&child);
      if (name && name->use == Name::Use::kStore && name->name == "loop")
        throw SyntaxError(child.at, "the variable 'loop' cannot be assigned to in a loop");
      refuse_loop_as_target(child);
    });
  }

  void visit_macro(MacroBody& macro, Node& node, const Frame& frame) {
    FunctionVariables function(frame.symbols->function());
    Symbols symbols(frame.symbols, &function);
    symbols.analyze_macro(macro);
    declare_caller(macro, node, symbols);
    symbols.analyze_macro(macro);
    const Frame inner{&symbols};
    for (const auto& parameter : macro.parameters) visit(*parameter, inner);
    for (const ExprPtr& value : macro.defaults) visit(*value, inner);
    visit_all(macro.body, inner);
    macro.scope = symbols.scope();
    macro.function.variables = function.size();
  }

  // Declares the variable `caller` as a parameter if the body uses it.
  static void declare_caller(MacroBody& macro, const Node& node, Symbols& symbols) {
    const auto uses = [&](const char* special) {
      const auto is_special = [&](const auto& parameter) { return parameter->name == special; };
      return std::ranges::none_of(macro.parameters, is_special) && uses_undeclared(macro.body, special);
    };
    for (const char* name : {"kwargs", "varargs"})
      if (uses(name)) throw SyntaxError(node.at, unsupported("variable", name));
    for (const auto& parameter : macro.parameters)
      if (parameter->name == "caller") throw SyntaxError(node.at, unsupported("macro parameter", "caller"));
    if (!uses("caller")) return;
    symbols.declare_parameter("caller");
    macro.caller = symbols.find("caller")->index;
  }

  void visit_macro_stmt(MacroStmt& node, const Frame& frame) {
    visit_macro(*node.macro, node, frame);
    node.slot = slot_of(node.name, node, frame);
  }

  void visit_call_block(CallBlockStmt& node, const Frame& frame) {
    visit_macro(*node.macro, node, frame);
    if (node.call) visit(*node.call, frame);
  }

  void visit_filter_block(FilterBlockStmt& node, const Frame& frame) {
    Symbols symbols(frame.symbols, frame.symbols->function());
    symbols.analyze_all(node.body);
    symbols.analyze(*node.filter);
    const Frame inner{&symbols, false, frame.in_loop};
    visit_all(node.body, inner);
    visit(*node.filter, inner);
    node.scope = symbols.scope();
  }

  void visit_set(SetStmt& node, const Frame& frame) {
    node.resolved = resolve_target(*node.target, frame);
    collect_namespaces(node.resolved, node.namespaces);
    visit(*node.value, frame);
  }

  static void collect_namespaces(const Target& target, std::vector<Slot>& found) {
    if (target.kind == Target::Kind::kAttribute) found.push_back(target.slot);
    for (const Target& item : target.items) collect_namespaces(item, found);
  }

  void visit_set_block(SetBlockStmt& node, const Frame& frame) {
    Symbols symbols(frame.symbols, frame.symbols->function());
    symbols.analyze_all(node.body);
    const Frame inner{&symbols, false, frame.in_loop};
    visit_all(node.body, inner);
    node.resolved = resolve_target(*node.target, frame);
    if (node.filter) visit(*node.filter, inner);
    node.scope = symbols.scope();
  }

  TemplateNode& root_;
};

}  // namespace

void resolve(TemplateNode& root) { Resolver(root).run(); }

}  // namespace dpo::text::jinja
