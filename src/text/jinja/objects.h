// Values that are not plain data: iterators, views of dicts, namespaces, functions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace dpo::text::jinja {

// Yields values once. Like Python's generators, it computes each value when it is requested.
class Iterator : public Object {
 public:
  explicit Iterator(std::uint32_t inner_depth) : depth_(inner_depth + 1) {}
  virtual bool next(Value& item) = 0;  // returns false at the end
  std::string type_name() const override { return "generator"; }
  std::uint32_t depth() const override { return depth_; }

 private:
  std::uint32_t depth_;
};

// An iterator over the items of `step`, which yields the next one or returns false at the end.
class Generator : public Iterator {
 public:
  using Step = std::function<bool(Value& item)>;
  Generator(std::uint32_t inner_depth, Step step) : Iterator(inner_depth), step_(std::move(step)) {}
  bool next(Value& item) override { return step_(item); }

 private:
  Step step_;
};

// The result of dict.keys(), dict.values() or dict.items().
class DictView : public Object {
 public:
  enum class Part { kKeys, kValues, kItems };
  DictView(Value of, Part which) : dict(std::move(of)), part(which) {}
  Value at(std::size_t index) const;
  std::size_t size() const { return dict.dict().size(); }
  std::optional<std::size_t> length() override { return size(); }
  std::string type_name() const override;
  std::string repr() const override;
  std::uint32_t depth() const override { return dict.depth() + 1; }

  const Value dict;
  const Part part;
};

class Namespace : public Object {
 public:
  explicit Namespace(Dict attributes) : attributes_(std::move(attributes)) {}
  std::optional<Value> attribute(const std::string& name) override;
  void set(const std::string& name, Value value);
  void clear() { attributes_ = {}; }
  std::string type_name() const override { return "Namespace"; }
  std::string repr() const override;

 private:
  Dict attributes_;
};

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

// An object that can be called.
class Callable : public Object {
 public:
  virtual Value call(Arguments arguments) = 0;
};

// A function of the environment, or a method bound to its object.
class Function : public Callable {
 public:
  using Body = std::function<Value(Arguments&)>;
  Function(std::string name, Body body, std::uint32_t inner_depth = 0)
      : name_(std::move(name)), body_(std::move(body)), depth_(inner_depth + 1) {}
  Value call(Arguments arguments) override { return body_(arguments); }
  std::string type_name() const override { return "builtin_function_or_method"; }
  std::uint32_t depth() const override { return depth_; }

 private:
  std::string name_;
  Body body_;
  std::uint32_t depth_;
};

// Returns the object as a T, or nullptr.
template <class T>
T* object_as(const Value& value) {
  return value.is_object() ? dynamic_cast<T*>(&value.object()) : nullptr;
}

Value make_generator(std::uint32_t inner_depth, Generator::Step step);

}  // namespace dpo::text::jinja
