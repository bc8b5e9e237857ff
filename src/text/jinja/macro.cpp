#include "text/jinja/macro.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/jinja/python.h"
#include "text/jinja/rendering.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

class Macro : public Callable {
 public:
  Macro(Rendering& rendering, std::optional<std::string> name, std::shared_ptr<const MacroBody> body)
      : rendering_(rendering), name_(std::move(name)), body_(std::move(body)), cells_(rendering.cells()) {}

  std::string type_name() const override { return "Macro"; }
  std::optional<Value> attribute(const std::string& name) override {
    if (is_unsupported("macro attribute", name)) throw Failure(unsupported("macro attribute", name));
    return std::nullopt;
  }

  Value call(Arguments given) override {
    const Rendering::Activation activation(rendering_, body_->function, cells_);
    bind(given);
    rendering_.enter(body_->scope);
    const auto& parameters = body_->parameters;
    const std::size_t first_default = parameters.size() - body_->defaults.size();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Value& value = rendering_.variable(parameters[i]->slot);
      if (value.kind() != Kind::kMissing) continue;
      const std::string& name = parameters[i]->name;
      value = i < first_default
                  ? Value::undefined({fmt::format("parameter '{}' was not provided", name), "", name})
                  : rendering_.evaluate(*body_->defaults[i - first_default]);
    }
    return rendering_.capture([&] { rendering_.execute(body_->body); });
  }

 private:
  static Value take(Arguments& given, const std::string& name) {
    const auto found = std::find_if(given.named.begin(), given.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (found == given.named.end()) return Value::missing();
    Value value = std::move(found->second);
    given.named.erase(found);
    return value;
  }

  // Binds arguments like Jinja2's Macro.__call__: by position, then by name, then the caller.
  void bind(Arguments& given) {
    const auto& parameters = body_->parameters;
    const std::size_t by_position = std::min(given.positional.size(), parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i)
      rendering_.variable(parameters[i]->slot) =
          i < by_position ? given.positional[i] : take(given, parameters[i]->name);
    if (body_->caller) {
      Value caller = take(given, "caller");
      if (caller.kind() == Kind::kMissing || caller.is_none())
        caller = Value::undefined({"No caller defined", "", "caller"});
      rendering_.variable({0, *body_->caller}) = std::move(caller);
    }
    const std::string shown = name_.value_or("None");
    if (!given.named.empty())
      throw Failure(fmt::format("macro '{}' takes no keyword argument '{}'", shown, given.named[0].first));
    if (given.positional.size() > parameters.size())
      throw Failure(fmt::format("macro '{}' takes not more than {} argument(s)", shown, parameters.size()));
  }

  Rendering& rendering_;
  std::optional<std::string> name_;
  std::shared_ptr<const MacroBody> body_;
  std::shared_ptr<Cells> cells_;
};

}  // namespace

Value make_macro(Rendering& rendering, std::optional<std::string> name,
                 std::shared_ptr<const MacroBody> body) {
  charge(sizeof(Macro));
  return Value(std::shared_ptr<Object>(std::make_shared<Macro>(rendering, std::move(name), std::move(body))));
}

}  // namespace dpo::text::jinja
