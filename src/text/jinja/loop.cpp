#include "text/jinja/python.h"
#include "text/jinja/rendering.h"
#include "text/jinja/statements.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

// The variable `loop`. As in Jinja2, it looks one item ahead only when the next or last one is requested.
class Loop : public Object {
 public:
  explicit Loop(const Value& items) : items_(items), iterator_(iterate(items)) {}

  bool next(Value& item) {
    Value following;
    if (ahead_) {
      following = *std::exchange(ahead_, std::nullopt);
    } else if (!iterator_->next(following)) {
      return false;
    }
    ++index0_;
    before_ = std::exchange(current_, following);
    item = std::move(following);
    return true;
  }

  std::string type_name() const override { return "LoopContext"; }
  std::uint32_t depth() const override { return items_.depth() + 1; }
  std::optional<std::size_t> length() override { return static_cast<std::size_t>(count()); }

  std::optional<Value> attribute(const std::string& name) override {
    if (name == "index0") return index0_;
    if (name == "index") return index0_ + 1;
    if (name == "first") return index0_ == 0;
    if (name == "last") return !peek();
    if (name == "length") return count();
    if (name == "revindex0") return count() - index0_ - 1;
    if (name == "revindex") return count() - index0_;
    if (name == "previtem")
      return index0_ == 0 ? Value::undefined({"there is no previous item", "", ""}) : before_;
    if (name == "nextitem") return peek() ? *ahead_ : Value::undefined({"there is no next item", "", ""});
    if (is_unsupported("loop attribute", name)) throw Failure(unsupported("loop attribute", name));
    return std::nullopt;
  }

 private:
  bool peek() {
    Value item;
    if (!ahead_ && iterator_->next(item)) ahead_ = item;
    return ahead_.has_value();
  }

  // Returns the number of items. Items without a length are read to their end.
  std::int64_t count() {
    if (count_) return *count_;
    if (const auto size = length_of(items_)) {
      count_ = static_cast<std::int64_t>(*size);
    } else {
      Values rest;
      for (Value item; iterator_->next(item);) rest.push_back(item);
      count_ = static_cast<std::int64_t>(rest.size()) + index0_ + 1 + (ahead_ ? 1 : 0);
      iterator_ = iterate(Value::list(std::move(rest)));
    }
    return *count_;
  }

  const Value items_;
  std::shared_ptr<Iterator> iterator_;
  std::int64_t index0_ = -1;
  Value current_, before_;
  std::optional<Value> ahead_;
  std::optional<std::int64_t> count_;
};

// Ends the variables of a loop, also if it ends with an error.
class Leave {
 public:
  Leave(Rendering& rendering, const Scope& scope) : rendering_(rendering), scope_(scope) {}
  ~Leave() { rendering_.leave(scope_); }
  Leave(const Leave&) = delete;
  Leave& operator=(const Leave&) = delete;

 private:
  Rendering& rendering_;
  const Scope& scope_;
};

// Returns the items that pass the loop's filter. Each is tested when the loop reaches it.
Value filtered(Rendering& rendering, const ForStmt& statement, const Value& items,
               std::shared_ptr<Cells> outer) {
  struct State {
    std::shared_ptr<Iterator> source;
    std::shared_ptr<Cells> cells;
  };
  auto state =
      std::make_shared<State>(State{iterate(items), rendering.make_cells(statement.test_function, outer)});
  bool entered = false;
  return make_generator(items.depth(), [&rendering, &statement, state, entered](Value& item) mutable {
    const Rendering::Activation activation(rendering, state->cells);
    if (!entered) rendering.enter(statement.test_scope);
    entered = true;
    for (Value each; state->source->next(each);) {
      rendering.assign(statement.test_target, each);
      if (!truth(rendering.evaluate(*statement.test))) continue;
      item = rendering.value_of(statement.test_target);
      return true;
    }
    return false;
  });
}

}  // namespace

Flow ForStmt::execute(Rendering& rendering) const {
  const Value items = rendering.evaluate(*iterable);
  rendering.at = at;
  const Value source = test ? filtered(rendering, *this, items, rendering.cells()) : items;
  std::shared_ptr<Loop> state;
  std::shared_ptr<Iterator> plain;
  if (has_loop) {
    state = std::make_shared<Loop>(source);
  } else {
    plain = iterate(source);
  }
  bool completed = false;  // as in Jinja2, true only after a body that runs to its end
  {
    const Leave leave(rendering, body_scope);
    for (Value item; state ? state->next(item) : plain->next(item);) {
      rendering.at = at;
      rendering.assign(body_target, item);
      if (state) rendering.variable(loop) = Value(std::shared_ptr<Object>(state));
      rendering.enter(body_scope);
      const Flow flow = rendering.execute(body);
      if (flow == Flow::kBreak) break;
      if (flow == Flow::kNext) completed = true;
    }
  }
  if (completed || otherwise.empty()) return Flow::kNext;
  rendering.enter(else_scope);
  const Flow flow = rendering.execute(otherwise);
  rendering.leave(else_scope);
  return flow;
}

}  // namespace dpo::text::jinja
