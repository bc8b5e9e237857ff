#include <algorithm>
#include <cmath>
#include <compare>

#include <fmt/format.h>

#include "text/jinja/budget.h"
#include "text/jinja/objects.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

// Compares exactly: a long double has the precision of both types, but a double would round the integer.
std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  const auto exact = [](const Value& value) -> long double {
    return value.is_integer() ? static_cast<long double>(value.integer()) : value.number();
  };
  return exact(a) <=> exact(b);
}

bool same_or_equal(const Value& a, const Value& b) { return a.is_same_as(b) || equal(a, b); }

bool equal_sequences(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  return std::equal(a.begin(), a.end(), b.begin(), same_or_equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = b.find(entry.first);
    return other && same_or_equal(entry.second, *other);
  });
}

bool equal_objects(const Value& a, const Value& b) {
  if (object_as<DictView>(a) && object_as<DictView>(b)) throw Failure("views of dicts cannot be compared");
  return a.is_same_as(b);
}

bool holds(std::partial_ordering result, Order order) {
  switch (order) {
    case Order::kLess: return result < 0;
    case Order::kLessEqual: return result <= 0;
    case Order::kGreater: return result > 0;
    case Order::kGreaterEqual: return result >= 0;
  }
  return false;
}

constexpr const char* kOrderText[] = {"<", "<=", ">", ">="};

bool object_contains(const Value& container, const Value& item) {
  if (is_iterable(container)) {
    const auto iterator = iterate(container);
    for (Value each; iterator->next(each);)
      if (same_or_equal(each, item)) return true;
    return false;
  }
  throw Failure(fmt::format("argument of type '{}' is not iterable", type_name(container)));
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  spend();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString: return a.string() == b.string();
    case Kind::kList:
    case Kind::kTuple: return equal_sequences(a.items(), b.items());
    case Kind::kDict: return equal_dicts(a.dict(), b.dict());
    case Kind::kObject: return equal_objects(a, b);
    default: return true;  // none or undefined
  }
}

bool ordered(const Value& a, Order order, const Value& b) {
  spend();
  if (a.is_number() && b.is_number()) return holds(compare_numbers(a, b), order);
  if (a.is_string() && b.is_string()) return holds(a.string() <=> b.string(), order);
  if (a.is_undefined()) refuse_undefined(a);
  if (b.is_undefined()) refuse_undefined(b);
  if (!a.is_sequence() || a.kind() != b.kind())
    throw Failure(fmt::format("'{}' not supported between instances of '{}' and '{}'",
                              kOrderText[static_cast<int>(order)], type_name(a), type_name(b)));
  const Values &left = a.items(), &right = b.items();
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i)
    if (!same_or_equal(left[i], right[i])) return ordered(left[i], order, right[i]);
  return holds(left.size() <=> right.size(), order);
}

std::size_t hash_of(const Value& value) {
  spend();
  switch (value.kind()) {
    case Kind::kString: return std::hash<std::string_view>()(value.string());
    case Kind::kBool:
    case Kind::kInt: return std::hash<double>()(value.number());
    case Kind::kFloat: return std::hash<double>()(value.number() == 0 ? 0.0 : value.number());
    case Kind::kTuple: {
      std::size_t hash = 0x345678;
      for (const Value& item : value.items()) hash = hash * 1000003 ^ hash_of(item);
      return hash;
    }
    case Kind::kObject:
      if (const auto* view = object_as<DictView>(value); !view || view->part == DictView::Part::kValues)
        return std::hash<const void*>()(&value.object());
      [[fallthrough]];
    case Kind::kList:
    case Kind::kDict: throw Failure(fmt::format("unhashable type: '{}'", type_name(value)));
    default: return static_cast<std::size_t>(value.kind());
  }
}

bool contains(const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string())
        throw Failure(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
      spend(container.string().size() / 64);
      return container.string().find(item.string()) != std::string::npos;
    case Kind::kList:
    case Kind::kTuple:
      return std::any_of(container.items().begin(), container.items().end(),
                         [&](const Value& each) { return same_or_equal(each, item); });
    case Kind::kDict: return container.dict().find(item) != nullptr;
    case Kind::kObject: return object_contains(container, item);
    case Kind::kUndefined: return false;
    default: throw Failure(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  }
}

}  // namespace dpo::text::jinja
