#include "data/value.h"

namespace dpo::data {

const Value* Value::find(std::string_view name) const {
  for (std::size_t i = names.size(); i-- > 0;)
    if (names[i] == name) return &items[i];
  return nullptr;
}

std::string_view Value::kind_name() const {
  switch (kind) {
    case Kind::Null: return "null";
    case Kind::Bool: return "a truth value";
    case Kind::Number: return "a number";
    case Kind::Text: return "a text";
    case Kind::List: return "a list";
    case Kind::Map: return "an object";
  }
  return "";
}

}  // namespace dpo::data
