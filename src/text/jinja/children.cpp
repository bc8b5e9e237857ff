#include "text/jinja/statements.h"

namespace dpo::text::jinja {
namespace {

template <class Nodes>
void visit_all(const Nodes& nodes, const Node::Visit& visit) {
  for (const auto& node : nodes) visit(*node);
}

void visit_if_present(const ExprPtr& node, const Node::Visit& visit) {
  if (node) visit(*node);
}

void visit_macro(const MacroBody& macro, const Node::Visit& visit) {
  visit_all(macro.parameters, visit);
  visit_all(macro.defaults, visit);
  visit_all(macro.body, visit);
}

}  // namespace

void TupleExpr::each_child(const Visit& visit) { visit_all(items, visit); }

void DictExpr::each_child(const Visit& visit) {
  for (const auto& [key, value] : entries) {
    visit(*key);
    visit(*value);
  }
}

void ArithmeticExpr::each_child(const Visit& visit) {
  visit(*left);
  visit(*right);
}

void UnaryExpr::each_child(const Visit& visit) { visit(*operand); }

void LogicExpr::each_child(const Visit& visit) {
  visit(*left);
  visit(*right);
}

void CompareExpr::each_child(const Visit& visit) {
  visit(*first);
  for (const auto& [comparison, operand] : rest) visit(*operand);
}

void ConcatExpr::each_child(const Visit& visit) { visit_all(parts, visit); }

void ConditionalExpr::each_child(const Visit& visit) {
  visit(*test);
  visit(*if_true);
  visit_if_present(if_false, visit);
}

void AttributeExpr::each_child(const Visit& visit) { visit(*object); }

void ItemExpr::each_child(const Visit& visit) {
  visit(*object);
  visit(*key);
}

void SliceExpr::each_child(const Visit& visit) {
  visit(*object);
  visit_if_present(start, visit);
  visit_if_present(stop, visit);
  visit_if_present(step, visit);
}

void CallArguments::each_child(const Node::Visit& visit) {
  visit_all(positional, visit);
  for (const auto& [name, value] : named) visit(*value);
  visit_if_present(list, visit);
  visit_if_present(dict, visit);
}

void CallExpr::each_child(const Visit& visit) {
  visit(*callee);
  arguments.each_child(visit);
}

void FilterExpr::each_child(const Visit& visit) {
  visit_if_present(input, visit);
  arguments.each_child(visit);
}

void TestExpr::each_child(const Visit& visit) {
  visit(*input);
  arguments.each_child(visit);
}

void OutputStmt::each_child(const Visit& visit) {
  for (const Part& part : parts) visit_if_present(part.expr, visit);
}

void IfStmt::each_child(const Visit& visit) {
  for (const Branch& branch : branches) {
    visit(*branch.test);
    visit_all(branch.body, visit);
  }
  visit_all(otherwise, visit);
}

void ForStmt::each_child(const Visit& visit) {
  visit(*target);
  visit(*iterable);
  visit_all(body, visit);
  visit_all(otherwise, visit);
  visit_if_present(test, visit);
}

void SetStmt::each_child(const Visit& visit) {
  visit(*target);
  visit(*value);
}

void SetBlockStmt::each_child(const Visit& visit) {
  visit(*target);
  if (filter) visit(*filter);
  visit_all(body, visit);
}

void MacroStmt::each_child(const Visit& visit) { visit_macro(*macro, visit); }

void CallBlockStmt::each_child(const Visit& visit) {
  if (call) visit(*call);
  visit_macro(*macro, visit);
}

void FilterBlockStmt::each_child(const Visit& visit) {
  visit_all(body, visit);
  visit(*filter);
}

void WithStmt::each_child(const Visit& visit) {
  visit_all(targets, visit);
  visit_all(values, visit);
  visit_all(body, visit);
}

void TemplateNode::each_child(const Visit& visit) { visit_all(body, visit); }

}  // namespace dpo::text::jinja
