#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/methods.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

Value count_item(const Value& self, Arguments& arguments) {
  const Parameters given("count", arguments, {""}, 1);
  std::int64_t count = 0;
  for (const Value& item : self.items()) count += item.is_same_as(given[0]) || equal(item, given[0]);
  return count;
}

Value index_of_item(const Value& self, Arguments& arguments) {
  const Parameters given("index", arguments, {""}, 1);
  const Values& items = self.items();
  for (std::size_t i = 0; i < items.size(); ++i)
    if (items[i].is_same_as(given[0]) || equal(items[i], given[0])) return i;
  throw Failure(fmt::format("{} is not in the list", repr(given[0])));
}

Value copy_container(const Value& self, Arguments& arguments) {
  const Parameters none("copy", arguments, {}, 0);
  return self.is_dict() ? Value(Dict(self.dict())) : Value::list(self.items());
}

Value get_entry(const Value& self, Arguments& arguments) {
  const Parameters given("get", arguments, {"", ""}, 1);
  const Value* found = self.dict().find(given[0]);
  return found ? *found : given.get(1, {});
}

template <DictView::Part part>
Value view_entries(const Value& self, Arguments& arguments) {
  const Parameters none("dict method", arguments, {}, 0);
  return Value(std::shared_ptr<Object>(std::make_shared<DictView>(self, part)));
}

Value changing_method(const Value&, Arguments&) { throw Failure("lists and dicts cannot be changed"); }

using Methods = std::unordered_map<std::string_view, Method>;

const Methods& dict_methods() {
  static const Methods methods = {
      {"copy", copy_container},
      {"get", get_entry},
      {"items", view_entries<DictView::Part::kItems>},
      {"keys", view_entries<DictView::Part::kKeys>},
      {"values", view_entries<DictView::Part::kValues>},
  };
  return methods;
}

const Methods& list_methods() {
  static const Methods methods = {{"copy", copy_container}, {"count", count_item}, {"index", index_of_item}};
  return methods;
}

std::optional<Value> find_in(const Methods& methods, const Value& value, const std::string& name) {
  const auto found = methods.find(name);
  if (found != methods.end()) return bind_method(value, name, found->second);
  if (changes_object(value, name)) return bind_method(value, name, changing_method);
  return std::nullopt;
}

}  // namespace

bool changes_object(const Value& value, const std::string& name) {
  static const std::unordered_set<std::string> of_list = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};
  static const std::unordered_set<std::string> of_dict = {"clear", "pop", "popitem", "setdefault", "update"};
  if (value.is_list()) return of_list.contains(name);
  return value.is_dict() && of_dict.contains(name);
}

std::optional<Value> find_sequence_method(const Value& list, const std::string& name) {
  if (list.kind() == Kind::kTuple && name == "copy") return std::nullopt;
  return find_in(list_methods(), list, name);
}

std::optional<Value> find_dict_method(const Value& dict, const std::string& name) {
  return find_in(dict_methods(), dict, name);
}

}  // namespace dpo::text::jinja
