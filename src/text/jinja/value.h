// text/jinja renders chat templates as Jinja2 does. A value of a template corresponds to a Python
// value.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dpo::text::jinja {

class Dict;
class Object;
class Value;

using Values = std::vector<Value>;

enum class Kind : std::uint8_t {
  kMissing,    // a variable that has no value yet; never the result of an expression
  kUndefined,  // prints as nothing; most other uses of it are errors
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kObject,  // functions, macros, loops, namespaces, iterators
};

// The origin of an undefined value, for the error message at its use.
struct Undefined {
  std::string hint;   // the whole message, or empty
  std::string owner;  // type whose attribute was requested, or empty for a variable
  std::string name;

  std::string message() const;
};

// A UTF-8 text. Markup is the result of the filter safe. Other text that is added to it is escaped for HTML.
struct Text {
  std::string bytes;
  bool markup = false;
};

// A value of a template. It is immutable (except for its objects) and cheap to copy. Copies may be used by
// many threads.
class Value {
 public:
  Value() = default;  // makes none
  Value(std::string text, bool markup = false);
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(double number) : kind_(Kind::kFloat), float_(number) {}
  Value(std::same_as<bool> auto flag) : kind_(Kind::kBool), int_(flag) {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) Value(Number number)
      : kind_(Kind::kInt), int_(static_cast<std::int64_t>(number)) {}
  Value(Dict dict);
  Value(std::shared_ptr<Object> object);

  static Value list(Values items);
  static Value tuple(Values items);
  static Value missing();
  static Value undefined(Undefined origin);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  // True for bool too, because Python's bool is an int.
  bool is_integer() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integer() || kind_ == Kind::kFloat; }

  // The accessors require a value of their kind.
  std::int64_t integer() const { return int_; }  // also for a bool
  double number() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  const std::string& string() const { return get<Text>().bytes; }
  bool is_markup() const { return is_string() && get<Text>().markup; }
  const Values& items() const;  // for a list or tuple
  const Dict& dict() const { return get<Dict>(); }
  Object& object() const { return *static_cast<Object*>(const_cast<void*>(pointer_.get())); }
  const Undefined& origin() const { return get<Undefined>(); }

  // Returns the member of a dict with this key, or nullptr. Also returns nullptr if this is not a dict.
  const Value* find(std::string_view key) const;

  // Returns how deep lists, dicts and iterators are nested, and 0 for a value that contains no others.
  std::uint32_t depth() const;

  bool is_same_as(const Value& other) const;  // Python's `is`

  // Returns a copy without a reference count, valid as long as this value. Otherwise threads that render one
  // template would contend for the counts of its literals.
  Value borrowed() const;

 private:
  template <class T>
  const T& get() const {
    return *static_cast<const T*>(pointer_.get());
  }

  Kind kind_ = Kind::kNone;
  union {
    std::int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<const void> pointer_;
};

// A dict in order of insertion. Its keys are hashable values, and equal keys such as 1, 1.0 and true are one.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  Dict() = default;
  Dict(std::initializer_list<Entry> entries);

  // Throws Failure if the key is not hashable.
  void set(Value key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  std::uint32_t depth() const { return depth_; }

 private:
  template <class Key>
  const Entry* search(const Key& key) const;

  std::vector<Entry> entries_;
  std::unordered_multimap<std::size_t, std::size_t> index_;  // by hash; only for dicts with many keys
  std::uint32_t depth_ = 1;
};

// Base of the other values; see objects.h. Objects can change, so each belongs to one rendering.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual std::string repr() const { return "<" + type_name() + ">"; }
  virtual std::uint32_t depth() const { return 0; }
  virtual std::optional<std::size_t> length() { return std::nullopt; }  // for types with len()
  virtual std::optional<Value> attribute(const std::string&) { return std::nullopt; }
};

// An error of a template. The evaluator adds the position.
class Failure : public std::exception {
 public:
  explicit Failure(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// Parses JSON and keeps the order of keys, integers and floats. Throws Failure for text that is not JSON, an
// integer beyond 64 bits, or nesting deeper than kMaxDepth.
Value parse_json(std::string_view text);

inline constexpr std::uint32_t kMaxDepth = 200;  // maximum nesting of lists and dicts

}  // namespace dpo::text::jinja
