#include <chrono>
#include <ctime>
#include <unordered_map>

#include <fmt/format.h>

#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

constexpr std::size_t kLargestRange = 100'000;  // as in Jinja2's sandbox

template <class T, class... Args>
Value make_object(Args&&... args) {
  return Value(std::shared_ptr<Object>(std::make_shared<T>(std::forward<Args>(args)...)));
}

// Makes a list, which a loop reads like Python's range.
Value make_range(Arguments& arguments) {
  const Parameters given("range", arguments, {"", "", ""}, 1);
  const std::int64_t start = given.has(1) ? given.integer(0, 0) : 0;
  const std::int64_t stop = given.integer(given.has(1) ? 1 : 0, 0);
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  Values items;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (items.size() == kLargestRange)
      throw Failure(
          fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kLargestRange));
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::list(std::move(items));
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

Value raise_exception(Arguments& arguments) {
  const Parameters given("raise_exception", arguments, {"message"}, 1);
  throw Raised(str(given[0]));
}

Value call_strftime_now(Arguments& arguments) {
  const Parameters given("strftime_now", arguments, {"format"}, 1);
  return strftime_now(need_string(given[0], "strftime_now"));
}

}  // namespace

const Value* find_global(std::string_view name) {
  static const auto globals = [] {
    std::unordered_map<std::string_view, Value> all;
    const auto add = [&](const char* each, Function::Body body) {
      all.emplace(each, make_object<Function>(each, std::move(body)));
    };
    add("range", make_range);
    add("dict", make_dict);
    add("raise_exception", raise_exception);
    add("strftime_now", call_strftime_now);
    for (const char* each : {"cycler", "joiner", "lipsum"})
      add(each, [each](Arguments&) -> Value { throw Failure(unsupported("function", each)); });
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
