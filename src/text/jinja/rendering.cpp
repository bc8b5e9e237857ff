#include "text/jinja/rendering.h"

#include <fmt/format.h>

#include "text/jinja/budget.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {

Rendering::Rendering(const Dict& variables, const Limits& limits) : context_(variables), limits_(limits) {
  constexpr std::size_t kUsualText = 4096;
  text.reserve(kUsualText);
}

Rendering::~Rendering() {
  for (const auto& space : namespaces_) space->clear();
  for (const auto& cells : kept_cells_) cells->variables.clear();
}

void Rendering::run(const TemplateNode& root) {
  const Activation activation(*this, root.function, nullptr);
  enter(root.scope);
  execute(root.body);
}

Value Rendering::evaluate(const Expr& expr) {
  spend();
  const Level level;
  return expr.evaluate(*this);
}

std::optional<Value> Rendering::evaluate_into(const Expr& expr, std::string& out) {
  spend();
  const Level level;
  return expr.evaluate_into(*this, out);
}

Flow Rendering::execute(const Stmts& body) {
  const Level level;
  for (const StmtPtr& statement : body) {
    spend();
    const Flow flow = statement->execute(*this);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Value& Rendering::variable(Slot slot) {
  Cells* cells = cells_.get();
  for (std::uint16_t i = 0; i < slot.up; ++i) cells = cells->outer.get();
  return cells->variables[slot.index];
}

Value Rendering::resolve(const std::string& name) {
  if (const Value* found = context_.find(std::string_view(name))) return *found;
  if (name == "namespace") {
    if (make_namespace_.is_none())
      make_namespace_ = Value(std::shared_ptr<Object>(std::make_shared<Function>(
          "namespace", [this](Arguments& arguments) { return make_namespace(arguments); })));
    return make_namespace_;
  }
  const Value* global = find_global(name);
  return global ? *global : Value::missing();
}

void Rendering::enter(const Scope& scope) {
  for (const Load& load : scope.loads) {
    Value& target = cells_->variables[load.index];
    if (load.from == Load::From::kContext)
      target = resolve(load.name);
    else
      target = load.from == Load::From::kOuter ? variable(load.outer) : Value::missing();
  }
}

void Rendering::leave(const Scope& scope) {
  for (const std::uint16_t index : scope.variables) cells_->variables[index] = Value::missing();
}

void Rendering::assign(const Target& target, const Value& value) {
  if (target.kind == Target::Kind::kVariable) {
    variable(target.slot) = value;
    return;
  }
  if (target.kind == Target::Kind::kAttribute) {
    auto* space = object_as<Namespace>(variable(target.slot));
    if (!space) throw Failure("cannot assign attribute on non-namespace object");
    return space->set(target.attribute, value);
  }
  const Values items = to_list(value);
  if (items.size() != target.items.size())
    throw Failure(fmt::format("expected {} values to unpack, got {}", target.items.size(), items.size()));
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i]);
}

Value Rendering::value_of(const Target& target) {
  if (target.kind != Target::Kind::kTuple) return variable(target.slot);
  Values items;
  for (const Target& item : target.items) items.push_back(value_of(item));
  return Value::tuple(std::move(items));
}

void Rendering::write(std::string_view piece) {
  if (out_->size() + piece.size() > limits_.output) throw Failure("the template writes too much text");
  charge(piece.size());
  *out_ += piece;
}

void Rendering::write(const Expr& expr) {
  if (const std::optional<Value> value = evaluate_into(expr, *out_))
    write(value->is_string() ? value->string() : str(*value));
  else
    write("");  // checks the size
}

void Rendering::write_result(const Value& value) {
  if (!value.is_string())
    throw Failure(fmt::format("the block's result is {}, expected str", type_name(value)));
  write(value.string());
}

Value Rendering::make_namespace(Arguments& arguments) {
  const Value* make_dict = find_global("dict");
  const Value attributes = object_as<Callable>(*make_dict)->call(std::move(arguments));
  for (const auto& [key, value] : attributes.dict().entries())
    if (key.is_string() && key.string().starts_with('_'))
      throw Failure("a namespace cannot have attributes that begin with an underscore");
  charge(sizeof(Namespace));
  namespaces_.push_back(std::make_shared<Namespace>(attributes.dict()));
  return Value(std::shared_ptr<Object>(namespaces_.back()));
}

std::shared_ptr<Cells> Rendering::make_cells(const FunctionInfo& function,
                                             std::shared_ptr<Cells> outer) const {
  charge(sizeof(Cells) + function.variables * sizeof(Value));
  auto cells = std::make_shared<Cells>();
  cells->variables.resize(function.variables, Value::missing());
  cells->outer = std::move(outer);
  return cells;
}

Rendering::Activation::Activation(Rendering& rendering, const FunctionInfo& function,
                                  std::shared_ptr<Cells> outer)
    : rendering_(rendering), calls_(1) {
  if (rendering_.calls_ >= rendering_.limits_.calls) throw Failure("macros call each other too deeply");
  before_ = std::exchange(rendering_.cells_, rendering.make_cells(function, std::move(outer)));
  ++rendering_.calls_;
}

Rendering::Activation::Activation(Rendering& rendering, std::shared_ptr<Cells> cells)
    : rendering_(rendering), before_(std::exchange(rendering.cells_, std::move(cells))), calls_(0) {}

Rendering::Activation::~Activation() {
  rendering_.calls_ -= calls_;
  rendering_.cells_ = std::move(before_);
}

}  // namespace dpo::text::jinja
