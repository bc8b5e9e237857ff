#include <algorithm>

#include <fmt/format.h>

#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

Value ignore_case(const Value& value) { return value.is_string() ? Value(to_lower(value.string())) : value; }

// A sort key and its item.
struct Keyed {
  Value key, item;
};

void sort_by_key(std::vector<Keyed>& keyed, bool reverse) {
  charge(keyed.size() * sizeof(Keyed));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? ordered(b.key, Order::kLess, a.key) : ordered(a.key, Order::kLess, b.key);
  });
}

Value items_of(const std::vector<Keyed>& keyed) {
  Values items;
  for (const Keyed& each : keyed) items.push_back(each.item);
  return Value::list(std::move(items));
}

Value filter_length(Arguments& arguments) {
  const Parameters given("len", arguments, {""}, 1);
  return length(given[0]);
}

Value filter_list(Arguments& arguments) {
  const Parameters given("list", arguments, {"value"}, 1);
  return Value::list(to_list(given[0]));
}

Value filter_default(Arguments& arguments) {
  const Parameters given("default", arguments, {"value", "default_value", "boolean"}, 1);
  const bool replaced = given[0].is_undefined() || (given.flag(2) && !truth(given[0]));
  return replaced ? given.get(1, "") : given[0];
}

Value filter_first(Arguments& arguments) {
  const Parameters given("first", arguments, {"seq"}, 1);
  Value item;
  if (iterate(given[0])->next(item)) return item;
  return Value::undefined({"No first item, sequence was empty.", "", ""});
}

Values need_reversed(const Value& value) {
  if (auto items = reversed_items(value)) return *std::move(items);
  throw Failure(fmt::format("'{}' object is not reversible", type_name(value)));
}

Value filter_last(Arguments& arguments) {
  const Parameters given("last", arguments, {"seq"}, 1);
  const Values items = need_reversed(given[0]);
  if (!items.empty()) return items[0];
  return Value::undefined({"No last item, sequence was empty.", "", ""});
}

Value iterator_of(Values items) {
  const Value list = Value::list(std::move(items));
  return Value(std::shared_ptr<Object>(iterate(list)));
}

Value filter_reverse(Arguments& arguments) {
  const Parameters given("reverse", arguments, {"value"}, 1);
  if (given[0].is_string()) return slice(given[0], {}, {}, -1);
  if (auto items = reversed_items(given[0])) return iterator_of(*std::move(items));
  Values items = to_list(given[0]);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Value filter_join(Arguments& arguments) {
  const Parameters given("join", arguments, {"value", "d", "attribute"}, 1);
  const std::string separator = str(given.get(1, ""));
  const bool by_attribute = !given.get(2, {}).is_none();
  const AttributePath path(given.get(2, {}));
  std::string out;
  bool first = true;
  const auto iterator = iterate(given[0]);
  for (Value item; iterator->next(item); first = false) {
    if (!first) {
      charge_text(out.size(), separator.size());
      out += separator;
    }
    append_str(out, by_attribute ? path.follow(item) : item);
  }
  return out;
}

Value filter_sum(Arguments& arguments) {
  const Parameters given("sum", arguments, {"iterable", "attribute", "start"}, 1);
  Value total = given.get(2, 0);
  if (total.is_string()) throw Failure("sum() can't sum strings [use ''.join(seq) instead]");
  const bool by_attribute = !given.get(1, {}).is_none();
  const AttributePath path(given.get(1, {}));
  const auto iterator = iterate(given[0]);
  for (Value item; iterator->next(item);)
    total = calculate(total, Arithmetic::kAdd, by_attribute ? path.follow(item) : item);
  return total;
}

// Parses several attributes that are compared in this order: "a,b.c".
std::vector<AttributePath> attribute_paths(const Value& attributes) {
  std::vector<AttributePath> paths;
  if (!attributes.is_string()) return {AttributePath(attributes)};
  for (const std::string_view part : split(attributes.string(), ",")) paths.emplace_back(Value(part));
  return paths;
}

Value filter_sort(Arguments& arguments) {
  const Parameters given("sort", arguments, {"value", "reverse", "case_sensitive", "attribute"}, 1);
  const std::vector<AttributePath> paths = attribute_paths(given.get(3, {}));
  std::vector<Keyed> keyed;
  for (const Value& item : to_list(given[0])) {
    Values key;
    for (const AttributePath& path : paths) {
      const Value part = path.follow(item);
      key.push_back(given.flag(2) ? part : ignore_case(part));
    }
    keyed.push_back({Value::list(std::move(key)), item});
  }
  sort_by_key(keyed, given.flag(1));
  return items_of(keyed);
}

Value filter_dictsort(Arguments& arguments) {
  const Parameters given("dictsort", arguments, {"value", "case_sensitive", "by", "reverse"}, 1);
  const Value by = given.get(2, "key");
  const bool by_key = equal(by, "key");
  if (!by_key && !equal(by, "value")) throw Failure("You can only sort by either \"key\" or \"value\"");
  if (given[0].is_undefined()) refuse_undefined(given[0]);
  if (!given[0].is_dict())
    throw Failure(fmt::format("'{}' object has no attribute 'items'", type_name(given[0])));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : given[0].dict().entries()) {
    const Value& part = by_key ? key : value;
    keyed.push_back({given.flag(1) ? part : ignore_case(part), Value::tuple({key, value})});
  }
  sort_by_key(keyed, given.flag(3));
  return items_of(keyed);
}

template <Order better>
Value filter_extreme(Arguments& arguments) {
  const Parameters given("min or max", arguments, {"value", "case_sensitive", "attribute"}, 1);
  const AttributePath path(given.get(2, {}));
  const auto key_of = [&](const Value& item) {
    const Value part = path.follow(item);
    return given.flag(1) ? part : ignore_case(part);
  };
  const auto iterator = iterate(given[0]);
  Value best;
  if (!iterator->next(best)) return Value::undefined({"No aggregated item, sequence was empty.", "", ""});
  Value best_key = key_of(best);
  for (Value item; iterator->next(item);) {
    Value key = key_of(item);
    if (!ordered(key, better, best_key)) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value filter_items(Arguments& arguments) {
  const Parameters given("items", arguments, {"value"}, 1);
  const Value dict = given[0];
  std::size_t at = 0;
  return make_generator(dict.depth(), [dict, at](Value& item) mutable {
    if (dict.is_undefined()) return false;
    if (!dict.is_dict()) throw Failure("Can only get item pairs from a mapping.");
    spend();
    if (at >= dict.dict().size()) return false;
    const auto& [key, value] = dict.dict().entries()[at++];
    item = Value::tuple({key, value});
    return true;
  });
}

Value filter_unique(Arguments& arguments) {
  const Parameters given("unique", arguments, {"value", "case_sensitive", "attribute"}, 1);
  const AttributePath path(given.get(2, {}));
  const bool case_sensitive = given.flag(1);
  const Value value = given[0];
  std::shared_ptr<Iterator> source;
  Dict seen;
  return make_generator(value.depth(), [value, path, case_sensitive, source, seen](Value& item) mutable {
    if (!source) source = iterate(value);
    while (source->next(item)) {
      const Value part = path.follow(item);
      const Value key = case_sensitive ? part : ignore_case(part);
      if (seen.find(key)) continue;
      charge(sizeof(Dict::Entry));
      seen.set(key, {});
      return true;
    }
    return false;
  });
}

}  // namespace

AttributePath::AttributePath(const Value& path) {
  if (path.is_none()) return;
  if (!path.is_string()) {
    parts_.push_back(path);
    return;
  }
  for (const std::string_view part : split(path.string(), ".")) {
    const bool is_number =
        !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    parts_.push_back(is_number ? Value(std::stoll(std::string(part))) : Value(part));
  }
}

Value AttributePath::follow(Value value, const Value& fallback) const {
  for (const Value& part : parts_) {
    value = get_item(value, part);
    if (!fallback.is_none() && value.is_undefined()) value = fallback;
  }
  return value;
}

std::span<const NamedFilter> sequence_filters() {
  static constexpr NamedFilter filters[] = {
      {"count", filter_length},
      {"d", filter_default},
      {"default", filter_default},
      {"dictsort", filter_dictsort},
      {"first", filter_first},
      {"items", filter_items},
      {"join", filter_join},
      {"last", filter_last},
      {"length", filter_length},
      {"list", filter_list},
      {"max", filter_extreme<Order::kGreater>},
      {"min", filter_extreme<Order::kLess>},
      {"reverse", filter_reverse},
      {"sort", filter_sort},
      {"sum", filter_sum},
      {"unique", filter_unique},
  };
  return filters;
}

}  // namespace dpo::text::jinja
