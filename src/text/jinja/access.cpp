#include <algorithm>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/budget.h"
#include "text/jinja/characters.h"
#include "text/jinja/methods.h"
#include "text/jinja/objects.h"
#include "text/jinja/python.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

// Iterates over items by position: lists, tuples, views of dicts, the keys of a dict.
class ItemsIterator : public Iterator {
 public:
  explicit ItemsIterator(const Value& value) : Iterator(value.depth()), value_(value) {}
  bool next(Value& item) override {
    spend();
    if (value_.is_sequence()) {
      if (at_ >= value_.items().size()) return false;
      item = value_.items()[at_++];
      return true;
    }
    if (value_.is_dict()) {
      if (at_ >= value_.dict().size()) return false;
      item = value_.dict().entries()[at_++].first;
      return true;
    }
    const auto* view = object_as<DictView>(value_);
    if (!view || at_ >= view->size()) return false;
    item = view->at(at_++);
    return true;
  }

 private:
  Value value_;
  std::size_t at_ = 0;
};

class CharacterIterator : public Iterator {
 public:
  explicit CharacterIterator(const Value& value) : Iterator(0), value_(value) {}
  bool next(Value& item) override {
    const std::string& text = value_.string();
    if (at_ >= text.size()) return false;
    spend();
    const std::size_t length = code_point_at(text, at_).length;
    item = Value(text.substr(at_, length));  // also for markup: str.__iter__ gives plain strings
    at_ += length;
    return true;
  }

 private:
  Value value_;
  std::size_t at_ = 0;
};

std::string owner_of(const Value& value) { return value.is_none() ? "None" : type_name(value) + " object"; }

Value undefined_member(const Value& value, const Value& key) {
  if (key.is_string()) return Value::undefined({"", owner_of(value), key.string()});
  return Value::undefined({fmt::format("{} has no element {}", owner_of(value), repr(key)), "", ""});
}

Value unsafe_member(const Value& value, const std::string& name) {
  return Value::undefined(
      {fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(value)), "", name});
}

// Returns whether a name is like those of Python's own attributes, which the sandbox hides.
bool is_python_attribute(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

std::optional<Value> find_attribute(const Value& value, const std::string& name) {
  switch (value.kind()) {
    case Kind::kUndefined: refuse_undefined(value);
    case Kind::kString: return find_str_method(value, name);
    case Kind::kList:
    case Kind::kTuple: return find_sequence_method(value, name);
    case Kind::kDict: return find_dict_method(value, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      if (is_unsupported("number attribute", name)) throw Failure(unsupported("number attribute", name));
      return std::nullopt;
    case Kind::kObject: return value.object().attribute(name);
    default: return std::nullopt;
  }
}

// Returns the attribute as the sandbox shows it to a template, or nullopt if there is none.
std::optional<Value> visible_attribute(const Value& value, const std::string& name) {
  if (is_python_attribute(name) && !object_as<Namespace>(value)) return unsafe_member(value, name);
  if (changes_object(value, name)) return unsafe_member(value, name);
  return find_attribute(value, name);
}

// Returns the index for a subscript or count (an int or bool), or nullopt for other types.
std::optional<std::int64_t> as_index(const Value& value) {
  return value.is_integer() ? std::optional<std::int64_t>(value.integer()) : std::nullopt;
}

const Value* element(const Values& items, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(items.size());
  if (index < 0) index += size;
  return index >= 0 && index < size ? &items[static_cast<std::size_t>(index)] : nullptr;
}

std::optional<Value> character(const Value& text, std::int64_t index) {
  const std::string& bytes = text.string();
  const auto count = static_cast<std::int64_t>(count_characters(bytes));
  spend(bytes.size() / 64);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  const std::size_t at = byte_of_character(bytes, static_cast<std::size_t>(index));
  return Value(bytes.substr(at, code_point_at(bytes, at).length), text.is_markup());
}

// Computes value[key] as Python does. Returns nullopt where Python raises a TypeError, IndexError or
// KeyError.
std::optional<Value> plain_item(const Value& value, const Value& key) {
  if (value.is_undefined()) refuse_undefined(value);
  if (value.is_dict()) {
    if (key.is_list() || key.is_dict()) return std::nullopt;  // not hashable
    const Value* found = value.dict().find(key);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  const std::optional<std::int64_t> index = as_index(key);
  if (!index) return std::nullopt;
  if (value.is_string()) return character(value, *index);
  if (value.is_sequence()) {
    const Value* found = element(value.items(), *index);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  return std::nullopt;
}

// The indices of value[start:stop:step], all within the value.
struct SliceRange {
  std::int64_t start, stop, step;
  std::size_t count;
  std::size_t at(std::size_t i) const {
    return static_cast<std::size_t>(start + static_cast<std::int64_t>(i) * step);
  }
};

SliceRange slice_range(std::size_t size, const Value& start, const Value& stop, const Value& step) {
  const auto part = [](const Value& value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    if (const auto index = as_index(value)) return *index;
    throw Failure("slice indices must be integers or None or have an __index__ method");
  };
  const std::int64_t by = std::max(part(step, 1), -INT64_MAX);
  if (by == 0) throw Failure("slice step cannot be zero");
  const auto length = static_cast<std::int64_t>(size);
  const std::int64_t low = by < 0 ? -1 : 0, high = by < 0 ? length - 1 : length;
  const auto clamp = [&](std::int64_t at) { return std::clamp(at < 0 ? at + length : at, low, high); };
  const std::int64_t first = start.is_none() ? (by < 0 ? high : low) : clamp(part(start, 0));
  const std::int64_t last = stop.is_none() ? (by < 0 ? low : high) : clamp(part(stop, 0));
  const std::int64_t distance = by < 0 ? first - last : last - first;
  const std::int64_t count = distance <= 0 ? 0 : (distance - 1) / (by < 0 ? -by : by) + 1;
  return {first, last, by, static_cast<std::size_t>(count)};
}

std::string slice_text(const std::string& text, const SliceRange& range) {
  if (range.count == 0) return "";
  if (range.step == 1) {
    const std::string_view from =
        std::string_view(text).substr(byte_of_character(text, static_cast<std::size_t>(range.start)));
    return std::string(from.substr(0, byte_of_character(from, range.count)));
  }
  const std::u32string codes = decode(text);
  std::u32string out;
  for (std::size_t i = 0; i < range.count; ++i) out += codes[range.at(i)];
  return encode(out);
}

}  // namespace

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.integer() != 0;
    case Kind::kFloat: return value.number() != 0;
    case Kind::kString: return !value.string().empty();
    case Kind::kList:
    case Kind::kTuple: return !value.items().empty();
    case Kind::kDict: return !value.dict().empty();
    case Kind::kObject: return value.object().length().value_or(1) > 0;
  }
  return false;
}

std::optional<std::size_t> length_of(const Value& value) {
  if (value.is_string()) return count_characters(value.string());
  if (value.is_sequence()) return value.items().size();
  if (value.is_dict()) return value.dict().size();
  if (value.is_undefined()) return 0;
  return value.is_object() ? value.object().length() : std::nullopt;
}

std::size_t length(const Value& value) {
  if (const auto size = length_of(value)) return *size;
  throw Failure(fmt::format("object of type '{}' has no len()", type_name(value)));
}

bool is_iterable(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is_dict() || value.is_undefined() ||
         object_as<Iterator>(value) || object_as<DictView>(value);
}

std::shared_ptr<Iterator> iterate(const Value& value) {
  if (!is_iterable(value)) throw Failure(fmt::format("'{}' object is not iterable", type_name(value)));
  if (value.is_string()) return std::make_shared<CharacterIterator>(value);
  if (object_as<Iterator>(value))  // shares the position with other users
    return std::make_shared<Generator>(
        value.depth(), [value](Value& item) { return static_cast<Iterator&>(value.object()).next(item); });
  return std::make_shared<ItemsIterator>(value);
}

Values to_list(const Value& value) {
  if (value.is_sequence()) return value.items();
  Values items;
  const auto iterator = iterate(value);
  for (Value item; iterator->next(item);) {
    charge(sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

std::int64_t need_index(const Value& value, std::string_view what) {
  if (const auto index = as_index(value)) return *index;
  throw Failure(fmt::format("{}: '{}' object cannot be interpreted as an integer", what, type_name(value)));
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) refuse_undefined(value);
  if (!value.is_string() && !value.is_sequence())
    throw Failure(fmt::format("'{}' object cannot be sliced", type_name(value)));
  const SliceRange part = slice_range(length(value), start, stop, step);
  if (value.is_string()) return {slice_text(value.string(), part), value.is_markup()};
  Values items;
  items.reserve(part.count);
  for (std::size_t i = 0; i < part.count; ++i) items.push_back(value.items()[part.at(i)]);
  return value.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value get_attribute(const Value& value, const std::string& name) {
  if (std::optional<Value> found = visible_attribute(value, name)) return *std::move(found);
  if (value.is_dict())
    if (const Value* found = value.dict().find(std::string_view(name))) return *found;
  return Value::undefined({"", owner_of(value), name});
}

std::optional<Values> reversed_items(const Value& value) {
  if (!is_iterable(value) || object_as<Iterator>(value)) return std::nullopt;
  Values items = to_list(value);
  std::reverse(items.begin(), items.end());
  return items;
}

Value get_item(const Value& value, const Value& key) {
  if (std::optional<Value> found = plain_item(value, key)) return *std::move(found);
  if (key.is_string())
    if (std::optional<Value> found = visible_attribute(value, key.string())) return *std::move(found);
  return undefined_member(value, key);
}

}  // namespace dpo::text::jinja
