// Finds the variables of a scope and of those around it like Jinja2's idtracking.py.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "text/jinja/statements.h"

namespace dpo::text::jinja {

// The variables of a function. Each name has one variable for each level of nesting that sets it.
class FunctionVariables {
 public:
  explicit FunctionVariables(FunctionVariables* outer) : outer_(outer) {}
  FunctionVariables* outer() const { return outer_; }
  std::uint16_t index_of(int level, const std::string& name);
  std::uint16_t size() const { return static_cast<std::uint16_t>(indices_.size()); }

 private:
  FunctionVariables* outer_;
  std::map<std::pair<int, std::string>, std::uint16_t> indices_;
};

class Symbols {
 public:
  Symbols(Symbols* outer, FunctionVariables* function)
      : outer_(outer), function_(function), level_(outer ? outer->level_ + 1 : 0) {}

  FunctionVariables* function() const { return function_; }

  // Records the variables that a node loads and sets in this scope.
  void analyze(Node& node);
  void analyze_all(const Stmts& nodes);
  void analyze_macro(const MacroBody& macro);
  void store_target(Node& target);  // target of a loop
  void declare_parameter(const std::string& name);

  std::optional<Slot> find(const std::string& name) const;  // seen from this scope
  Scope scope() const;

 private:
  enum class Source { kParameter, kContext, kOuter, kNothing };

  void load(const std::string& name);
  void store(const std::string& name);
  void analyze_if(IfStmt& node, std::size_t branch);
  void merge_branches(const std::vector<Symbols>& branches);
  const Symbols* owner_of(const std::string& name) const;

  Symbols* outer_;
  FunctionVariables* function_;
  int level_;
  std::map<std::string, Source> sources_;  // for the variables of this scope
  std::set<std::string> stores_;
};

// Returns whether the nodes load a name before they set it.
bool uses_undeclared(const Stmts& nodes, const std::string& name);

}  // namespace dpo::text::jinja
