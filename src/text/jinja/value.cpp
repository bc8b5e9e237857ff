#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>

#include <fmt/format.h>

#include "text/jinja/budget.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

struct Sequence {
  Values items;
  std::uint32_t depth;
};

constexpr std::size_t kIndexedSize = 16;  // dicts with more keys have an index

std::uint32_t check_depth(std::uint32_t depth) {
  if (depth > kMaxDepth) throw Failure("lists and dicts are nested too deeply");
  return depth;
}

std::shared_ptr<const Sequence> make_sequence(Values items) {
  charge(sizeof(Sequence) + items.size() * sizeof(Value));
  std::uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return std::make_shared<const Sequence>(Sequence{std::move(items), check_depth(depth + 1)});
}

bool same_key(const Value& a, const Value& b) { return equal(a, b); }
bool same_key(const Value& a, std::string_view b) { return a.is_string() && a.string() == b; }

std::size_t hash_key(const Value& key) { return hash_of(key); }
std::size_t hash_key(std::string_view key) { return std::hash<std::string_view>()(key); }

}  // namespace

std::string Undefined::message() const {
  if (!hint.empty()) return hint;
  if (owner.empty()) return fmt::format("'{}' is undefined", name);
  return fmt::format("'{}' has no attribute '{}'", owner, name);
}

Value::Value(std::string text, bool markup) : kind_(Kind::kString) {
  charge(sizeof(Text) + text.size());
  pointer_ = std::make_shared<const Text>(Text{std::move(text), markup});
}

Value::Value(Dict dict) : kind_(Kind::kDict) {
  charge(sizeof(Dict) + dict.size() * sizeof(Dict::Entry));
  check_depth(dict.depth());
  pointer_ = std::make_shared<const Dict>(std::move(dict));
}

Value::Value(std::shared_ptr<Object> object) : kind_(Kind::kObject), pointer_(std::move(object)) {
  check_depth(depth());
}

Value Value::list(Values items) {
  Value value;
  value.pointer_ = make_sequence(std::move(items));
  value.kind_ = Kind::kList;
  return value;
}

Value Value::tuple(Values items) {
  Value value = list(std::move(items));
  value.kind_ = Kind::kTuple;
  return value;
}

Value Value::missing() {
  Value value;
  value.kind_ = Kind::kMissing;
  return value;
}

Value Value::undefined(Undefined origin) {
  Value value;
  value.pointer_ = std::make_shared<const Undefined>(std::move(origin));
  value.kind_ = Kind::kUndefined;
  return value;
}

const Values& Value::items() const { return get<Sequence>().items; }

const Value* Value::find(std::string_view key) const { return is_dict() ? dict().find(key) : nullptr; }

std::uint32_t Value::depth() const {
  if (is_sequence()) return get<Sequence>().depth;
  if (is_dict()) return dict().depth();
  return is_object() ? object().depth() : 0;
}

bool Value::is_same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::kFloat) return float_ == other.float_;
  return int_ == other.int_ && pointer_ == other.pointer_;
}

Value Value::borrowed() const {
  if (!pointer_) return *this;
  Value value;
  value.kind_ = kind_;
  value.pointer_ = std::shared_ptr<const void>(std::shared_ptr<const void>(), pointer_.get());
  return value;
}

Dict::Dict(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) set(entry.first, entry.second);
}

template <class Key>
const Dict::Entry* Dict::search(const Key& key) const {
  if (index_.empty()) {
    for (const Entry& entry : entries_)
      if (same_key(entry.first, key)) return &entry;
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(hash_key(key));
  for (auto at = first; at != last; ++at)
    if (same_key(entries_[at->second].first, key)) return &entries_[at->second];
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(std::string_view(key.string()));
  hash_of(key);  // throws for a key that is not hashable, also for an empty dict
  const Entry* entry = search(key);
  return entry ? &entry->second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const Entry* entry = search(key);
  return entry ? &entry->second : nullptr;
}

void Dict::set(Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  if (const Value* present = find(key)) {
    const_cast<Value&>(*present) = std::move(value);
    return;
  }
  if (entries_.empty()) entries_.reserve(4);
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kIndexedSize) return;
  for (std::size_t i = index_.size(); i < entries_.size(); ++i) index_.emplace(hash_of(entries_[i].first), i);
}

}  // namespace dpo::text::jinja
