#include <algorithm>
#include <cmath>
#include <compare>

#include <fmt/format.h>

#include "text/jinja/budget.h"
#include "text/jinja/objects.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

// Compares exactly. A conversion to double would round the integer.
std::partial_ordering compare_int_float(std::int64_t a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= 9223372036854775808.0) return std::partial_ordering::less;
  if (b < -9223372036854775808.0) return std::partial_ordering::greater;
  const double whole = std::trunc(b);
  const auto order = a <=> static_cast<std::int64_t>(whole);
  return order != 0 ? std::partial_ordering(order) : 0.0 <=> (b - whole);
}

std::partial_ordering reversed_order(std::partial_ordering order) {
  if (order == std::partial_ordering::unordered) return order;
  return 0 <=> (order < 0 ? -1 : order > 0 ? 1 : 0);
}

std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer() <=> b.integer();
  if (a.is_integer()) return compare_int_float(a.integer(), b.number());
  if (b.is_integer()) return reversed_order(compare_int_float(b.integer(), a.number()));
  return a.number() <=> b.number();
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

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
  if (a.size() != b.size()) return false;
  return a.size() == 0 || (a.start == b.start && (a.size() == 1 || a.step == b.step));
}

// Compares views of dicts. In Python, keys and items are sets, and values are not comparable.
bool equal_views(const DictView& a, const DictView& b) {
  if (a.part != b.part || a.part == DictView::Part::kValues) return &a == &b;
  if (a.part == DictView::Part::kItems) return equal_dicts(a.dict.dict(), b.dict.dict());
  const auto& keys = a.dict.dict().entries();
  return a.size() == b.size() && std::all_of(keys.begin(), keys.end(), [&](const Dict::Entry& entry) {
           return b.dict.dict().find(entry.first) != nullptr;
         });
}

bool equal_objects(const Value& a, const Value& b) {
  if (a.is_same_as(b)) return true;
  const auto *range_a = object_as<RangeObject>(a), *range_b = object_as<RangeObject>(b);
  if (range_a && range_b) return equal_ranges(*range_a, *range_b);
  const auto *view_a = object_as<DictView>(a), *view_b = object_as<DictView>(b);
  return view_a && view_b && equal_views(*view_a, *view_b);
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

bool range_contains(const RangeObject& range, const Value& item) {
  if (!item.is_number() || range.size() == 0) return false;
  if (!item.is_integer() && item.number() != std::trunc(item.number())) return false;
  const double number = item.number();
  if (std::abs(number) > 9e18) return false;
  const std::int64_t wanted = item.is_integer() ? item.integer() : static_cast<std::int64_t>(number);
  const std::int64_t first = range.start, last = range.at(range.size() - 1);
  if (wanted < std::min(first, last) || wanted > std::max(first, last)) return false;
  return (wanted - first) % range.step == 0;
}

bool view_contains(const DictView& view, const Value& item) {
  const Dict& dict = view.dict.dict();
  if (view.part == DictView::Part::kKeys) return dict.find(item) != nullptr;
  if (view.part == DictView::Part::kItems) {
    if (item.kind() != Kind::kTuple || item.items().size() != 2) return false;
    const Value* value = dict.find(item.items()[0]);
    return value && same_or_equal(*value, item.items()[1]);
  }
  return std::any_of(dict.entries().begin(), dict.entries().end(),
                     [&](const Dict::Entry& entry) { return same_or_equal(entry.second, item); });
}

bool object_contains(const Value& container, const Value& item) {
  if (const auto* range = object_as<RangeObject>(container)) return range_contains(*range, item);
  if (const auto* view = object_as<DictView>(container)) return view_contains(*view, item);
  if (auto* iterator = object_as<Iterator>(container)) {
    Value each;
    while (iterator->next(each))
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
