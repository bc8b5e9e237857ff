#include "text/jinja/objects.h"

#include <fmt/format.h>

#include "text/jinja/budget.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {

Value DictView::at(std::size_t index) const {
  const auto& [key, value] = dict.dict().entries()[index];
  if (part == Part::kKeys) return key;
  return part == Part::kValues ? value : Value::tuple({key, value});
}

std::string DictView::type_name() const {
  return part == Part::kKeys ? "dict_keys" : part == Part::kValues ? "dict_values" : "dict_items";
}

std::string DictView::repr() const {
  Values items;
  for (std::size_t i = 0; i < size(); ++i) items.push_back(at(i));
  return type_name() + "(" + jinja::repr(Value::list(std::move(items))) + ")";
}

std::optional<Value> Namespace::attribute(const std::string& name) {
  const Value* found = attributes_.find(std::string_view(name));
  return found ? std::optional<Value>(*found) : std::nullopt;
}

void Namespace::set(const std::string& name, Value value) {
  if (name.starts_with('_'))
    throw Failure(
        fmt::format("a namespace cannot have attributes that begin with an underscore, got '{}'", name));
  attributes_.set(Value(name), std::move(value));
}

std::string Namespace::repr() const {
  const Level level;  // a namespace can contain itself
  return "<Namespace " + jinja::repr(Value(attributes_)) + ">";
}

Value make_generator(std::uint32_t inner_depth, Generator::Step step) {
  return Value(std::shared_ptr<Object>(std::make_shared<Generator>(inner_depth, std::move(step))));
}

}  // namespace dpo::text::jinja
