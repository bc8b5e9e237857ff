#include "text/jinja/symbols.h"

#include <limits>

namespace dpo::text::jinja {

std::uint16_t FunctionVariables::index_of(int level, const std::string& name) {
  const auto [entry, is_new] =
      indices_.try_emplace({level, name}, static_cast<std::uint16_t>(indices_.size()));
  if (is_new && indices_.size() > std::numeric_limits<std::uint16_t>::max())
    throw SyntaxError({}, "the template has too many variables");
  return entry->second;
}

const Symbols* Symbols::owner_of(const std::string& name) const {
  const Symbols* symbols = this;
  while (symbols && !symbols->sources_.contains(name)) symbols = symbols->outer_;
  return symbols;
}

void Symbols::load(const std::string& name) {
  if (!owner_of(name)) sources_[name] = Source::kContext;
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (sources_.contains(name)) return;
  sources_[name] = outer_ && outer_->owner_of(name) ? Source::kOuter : Source::kNothing;
}

void Symbols::declare_parameter(const std::string& name) {
  stores_.insert(name);
  sources_[name] = Source::kParameter;
}

void Symbols::store_target(Node& target) {
  if (const auto* name = dynamic_cast<Name*>(&target)) declare_parameter(name->name);
  target.each_child([&](Node& child) { store_target(child); });
}

void Symbols::analyze_all(const Stmts& nodes) {
  for (const StmtPtr& node : nodes) analyze(*node);
}

void Symbols::analyze_macro(const MacroBody& macro) {
  for (const auto& parameter : macro.parameters) analyze(*parameter);
  for (const ExprPtr& value : macro.defaults) analyze(*value);
  analyze_all(macro.body);
}

void Symbols::analyze(Node& node) {
  switch (node.type()) {
    case NodeType::kName: {
      const auto& name = static_cast<Name&>(node);
      if (name.use == Name::Use::kParameter) return declare_parameter(name.name);
      return name.use == Name::Use::kStore ? store(name.name) : load(name.name);
    }
    case NodeType::kNamespaceAttribute: return load(static_cast<NamespaceAttribute&>(node).name);
    case NodeType::kIf: return analyze_if(static_cast<IfStmt&>(node), 0);
    case NodeType::kMacro: return store(static_cast<MacroStmt&>(node).name);
    case NodeType::kSet:
      analyze(*static_cast<SetStmt&>(node).value);
      return analyze(*static_cast<SetStmt&>(node).target);
    case NodeType::kFor: return analyze(*static_cast<ForStmt&>(node).iterable);
    case NodeType::kCallBlock:
      if (const auto& call = static_cast<CallBlockStmt&>(node).call) analyze(*call);
      return;
    case NodeType::kFilterBlock: return analyze(*static_cast<FilterBlockStmt&>(node).filter);
    case NodeType::kSetBlock: return analyze(*static_cast<SetBlockStmt&>(node).target);
    default: return node.each_child([&](Node& child) { analyze(child); });
  }
}

// Analyzes the branches in copies of this scope. An elif is an if in the else of its predecessor, but all of
// them share one copy.
void Symbols::analyze_if(IfStmt& node, std::size_t branch) {
  analyze(*node.branches[branch].test);
  Symbols body = *this, others = *this, otherwise = *this;
  body.analyze_all(node.branches[branch].body);
  if (branch == 0) {
    for (std::size_t i = 1; i < node.branches.size(); ++i) others.analyze_if(node, i);
    otherwise.analyze_all(node.otherwise);
  }
  merge_branches({body, others, otherwise});
}

void Symbols::merge_branches(const std::vector<Symbols>& branches) {
  std::set<std::string> stored;
  for (const Symbols& branch : branches)
    for (const std::string& name : branch.stores_)
      if (!stores_.contains(name)) stored.insert(name);
  for (const Symbols& branch : branches) {
    for (const auto& [name, source] : branch.sources_) sources_[name] = source;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stored)
    sources_[name] = outer_ && outer_->owner_of(name) ? Source::kOuter : Source::kContext;
}

std::optional<Slot> Symbols::find(const std::string& name) const {
  const Symbols* owner = owner_of(name);
  if (!owner) return std::nullopt;
  Slot slot{0, owner->function_->index_of(owner->level_, name)};
  for (const FunctionVariables* function = function_; function != owner->function_;
       function = function->outer())
    ++slot.up;
  return slot;
}

Scope Symbols::scope() const {
  Scope scope;
  for (const auto& [name, source] : sources_) {
    const std::uint16_t index = function_->index_of(level_, name);
    scope.variables.push_back(index);
    if (source == Source::kContext) scope.loads.push_back({Load::From::kContext, index, name, {}});
    if (source == Source::kNothing) scope.loads.push_back({Load::From::kNothing, index, "", {}});
    if (source == Source::kOuter) {
      // The owner is found from this scope's function: a macro reads the variable of the function around it.
      const Symbols* owner = outer_->owner_of(name);
      Slot outer{0, owner->function_->index_of(owner->level_, name)};
      for (const FunctionVariables* function = function_; function != owner->function_;
           function = function->outer())
        ++outer.up;
      scope.loads.push_back({Load::From::kOuter, index, "", outer});
    }
  }
  return scope;
}

bool uses_undeclared(const Stmts& nodes, const std::string& name) {
  bool used = false, declared = false;
  const std::function<void(Node&)> visit = [&](Node& node) {
    if (used || declared) return;
    if (const auto* found = dynamic_cast<Name*>(&node); found && found->name == name) {
      (found->use == Name::Use::kLoad ? used : declared) = true;
      return;
    }
    node.each_child(visit);
  };
  for (const StmtPtr& node : nodes) visit(*node);
  return used;
}

}  // namespace dpo::text::jinja
