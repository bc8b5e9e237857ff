#include <chrono>
#include <ctime>
#include <unordered_map>

#include <fmt/format.h>

#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

constexpr std::size_t kLargestRange = 100'000;  // as in Jinja2's sandbox

template <class T, class... Args>
Value make_object(Args&&... args) {
  return Value(std::shared_ptr<Object>(std::make_shared<T>(std::forward<Args>(args)...)));
}

Value make_range(Arguments& arguments) {
  const Parameters given("range", arguments, {"", "", ""}, 1);
  const std::int64_t first = given.integer(0, 0);
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  auto range = given.has(1) ? std::make_shared<RangeObject>(first, given.integer(1, 0), step)
                            : std::make_shared<RangeObject>(0, first, 1);
  if (range->size() > kLargestRange)
    throw Failure(
        fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kLargestRange));
  return Value(std::shared_ptr<Object>(std::move(range)));
}

void add_pairs(Dict& dict, const Value& pairs) {
  const auto iterator = iterate(pairs);
  for (Value pair; iterator->next(pair);) {
    const Values parts = to_list(pair);
    if (parts.size() != 2) throw Failure("dictionary update sequence element has not two items");
    charge(sizeof(Dict::Entry));
    dict.set(parts[0], parts[1]);
  }
}

Value make_dict(Arguments& arguments) {
  if (arguments.positional.size() > 1) throw Failure("dict expected at most 1 argument");
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_undefined()) refuse_undefined(source);  // Python reads its keys()
    if (source.is_dict())
      dict = source.dict();
    else
      add_pairs(dict, source);
  }
  for (auto& [name, value] : arguments.named) dict.set(name, std::move(value));
  return dict;
}

// The function dict(...), with dict.fromkeys(...).
class DictFunction : public Function, public WithAttributes {
 public:
  DictFunction() : Function("dict", make_dict) {}
  std::string type_name() const override { return "TemplateDict"; }
  std::optional<Value> attribute(const std::string& name) override {
    return name == "fromkeys" ? std::optional<Value>(get_attribute(Value(Dict{}), name)) : std::nullopt;
  }
};

class Cycler : public Object, public WithAttributes, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(Values items) : items_(Value::tuple(std::move(items))) {}
  std::string type_name() const override { return "Cycler"; }
  std::string repr() const override { return "<jinja2.utils.Cycler object>"; }
  std::uint32_t depth() const override { return items_.depth() + 1; }

  std::optional<Value> attribute(const std::string& name) override {
    const auto current = [](Cycler& self) { return self.items_.items()[self.at_]; };
    if (name == "items") return items_;
    if (name == "pos") return at_;
    if (name == "current") return current(*this);
    const auto self = shared_from_this();
    if (name == "reset")
      return make_object<Function>(name, [self](Arguments& arguments) {
        const Parameters none("reset", arguments, {}, 0);
        self->at_ = 0;
        return Value();
      });
    if (name == "next")
      return make_object<Function>(name, [self, current](Arguments& arguments) {
        const Parameters none("next", arguments, {}, 0);
        const Value item = current(*self);
        self->at_ = (self->at_ + 1) % self->items_.items().size();
        return item;
      });
    return std::nullopt;
  }

 private:
  Value items_;
  std::size_t at_ = 0;
};

class Joiner : public Callable, public WithAttributes {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  std::string repr() const override { return "<jinja2.utils.Joiner object>"; }
  std::uint32_t depth() const override { return separator_.depth() + 1; }

  Value call(Arguments arguments) override {
    const Parameters none("joiner", arguments, {}, 0);
    return std::exchange(used_, true) ? separator_ : Value("");
  }

  std::optional<Value> attribute(const std::string& name) override {
    if (name == "sep") return separator_;
    if (name == "used") return used_;
    return std::nullopt;
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value make_cycler(Arguments& arguments) {
  if (!arguments.named.empty()) throw Failure("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) throw Failure("at least one item has to be provided");
  return make_object<Cycler>(std::move(arguments.positional));
}

Value make_joiner(Arguments& arguments) {
  const Parameters given("joiner", arguments, {"sep"}, 0);
  return make_object<Joiner>(given.get(0, ", "));
}

Value raise_exception(Arguments& arguments) {
  const Parameters given("raise_exception", arguments, {"message"}, 1);
  throw Raised(str(given[0]));
}

Value call_strftime_now(Arguments& arguments) {
  const Parameters given("strftime_now", arguments, {"format"}, 1);
  return strftime_now(need_string(given[0], "strftime_now"));
}

Value make_lipsum(Arguments&) { throw Failure("lipsum() is not supported"); }

}  // namespace

const Value* find_global(std::string_view name) {
  static const auto globals = [] {
    std::unordered_map<std::string_view, Value> all;
    const auto add = [&](const char* each, Function::Body body) {
      all.emplace(each, make_object<Function>(each, std::move(body)));
    };
    add("range", make_range);
    add("cycler", make_cycler);
    add("joiner", make_joiner);
    add("lipsum", make_lipsum);
    add("raise_exception", raise_exception);
    add("strftime_now", call_strftime_now);
    all.emplace("dict", make_object<DictFunction>());
    return all;
  }();
  const auto found = globals.find(name);
  return found == globals.end() ? nullptr : &found->second;
}

std::string strftime_now(const std::string& format) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  localtime_r(&seconds, &local);
  // Handles directives as Python does: %f is microseconds, and %z and %Z are empty for a naive datetime.
  const auto since_second = now - std::chrono::system_clock::from_time_t(seconds);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(since_second).count();
  std::string prepared;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      prepared += format[i];
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f')
      prepared += fmt::format("{:06}", micros);
    else if (directive != 'z' && directive != 'Z')
      prepared += std::string("%") + directive;
  }
  if (prepared.empty()) return "";
  prepared += 'x';  // distinguishes an empty result from a buffer that is too small
  std::string out(prepared.size() * 4 + 64, '\0');
  std::size_t size = 0;
  while ((size = std::strftime(out.data(), out.size(), prepared.c_str(), &local)) == 0) {
    charge(2 * out.size());
    out.resize(2 * out.size());
  }
  out.resize(size - 1);
  return out;
}

}  // namespace dpo::text::jinja
