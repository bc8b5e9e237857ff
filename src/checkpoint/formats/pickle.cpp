#include "checkpoint/formats/pickle.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <unordered_map>
#include <variant>

#include <fmt/format.h>

#include "base/error.h"

namespace dpo::checkpoint {
namespace {

struct Object;
using Ref = std::shared_ptr<Object>;

struct Mark {};
struct Global {
  std::string name;  // "collections.OrderedDict"
};
struct Storage {
  Dtype dtype{};
  std::string key;
};

// A value on the machine's stack.
struct Object {
  using List = std::vector<Ref>;  // lists and tuples
  using Dict = std::vector<std::pair<Ref, Ref>>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Dict, PickledTensor, Global,
               Storage, Mark>
      value;
  int depth = 1;
  bool inside = false;  // whether it is in a container
};

// Nesting is limited: otherwise a small file could build a chain that overflows the stack when it is
// destroyed.
constexpr int kDeepest = 64;
// Names and shapes are limited because a small file could have long ones copied until memory is full.
constexpr std::size_t kLongestName = 1000, kLongestGlobal = 200, kMostDimensions = 64;

const std::map<std::string, Dtype>& storage_types() {
  static const std::map<std::string, Dtype> types = {
      {"torch.DoubleStorage", Dtype::F64}, {"torch.FloatStorage", Dtype::F32},
      {"torch.HalfStorage", Dtype::F16},   {"torch.BFloat16Storage", Dtype::BF16},
      {"torch.LongStorage", Dtype::I64},   {"torch.IntStorage", Dtype::I32},
      {"torch.ShortStorage", Dtype::I16},  {"torch.CharStorage", Dtype::I8},
      {"torch.ByteStorage", Dtype::U8},    {"torch.BoolStorage", Dtype::BOOL}};
  return types;
}

// Implements the stack machine of the pickle format, except the part that calls Python.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  Ref run() {
    while (true) {
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (opcode == '.') return pop();
      step(opcode);
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw UserError(
        fmt::format("{}: {}; convert it with Python: torch.load, then "
                    "safetensors.torch.save_file",
                    origin_, why));
  }

 private:
  void step(unsigned char opcode) {
    switch (opcode) {
      case 0x80: take(1); break;                                                               // PROTO
      case 0x95: take(8); break;                                                               // FRAME
      case '(': push(Mark{}); break;                                                           // MARK
      case '0': pop(); break;                                                                  // POP
      case 'N': push(std::monostate{}); break;                                                 // NONE
      case 0x88: push(true); break;                                                            // NEWTRUE
      case 0x89: push(false); break;                                                           // NEWFALSE
      case 'K': push(static_cast<std::int64_t>(number(1))); break;                             // BININT1
      case 'M': push(static_cast<std::int64_t>(number(2))); break;                             // BININT2
      case 'J': push(static_cast<std::int64_t>(static_cast<std::int32_t>(number(4)))); break;  // BININT
      case 0x8a: push(long_integer(number(1))); break;                                         // LONG1
      case 'G': push(big_endian_double()); break;                                              // BINFLOAT
      case 'X': push(text(number(4))); break;                                                  // BINUNICODE
      case 0x8c: push(text(number(1))); break;                   // SHORT_BINUNICODE
      case ')': push(Object::List{}); break;                     // EMPTY_TUPLE
      case ']': push(Object::List{}); break;                     // EMPTY_LIST
      case '}': push(Object::Dict{}); break;                     // EMPTY_DICT
      case 0x85: push_list(pop_last(1)); break;                  // TUPLE1
      case 0x86: push_list(pop_last(2)); break;                  // TUPLE2
      case 0x87: push_list(pop_last(3)); break;                  // TUPLE3
      case 't': push_list(pop_to_mark()); break;                 // TUPLE
      case 'l': push_list(pop_to_mark()); break;                 // LIST
      case 'a': append(pop_last(1)); break;                      // APPEND
      case 'e': append(pop_to_mark()); break;                    // APPENDS
      case 's': set_items(pop_last(2)); break;                   // SETITEM
      case 'u': set_items(pop_to_mark()); break;                 // SETITEMS
      case 'q': memo_[number(1)] = top(); break;                 // BINPUT
      case 'r': memo_[number(4)] = top(); break;                 // LONG_BINPUT
      case 0x94: memo_[memo_.size()] = top(); break;             // MEMOIZE
      case 'h': stack_.push_back(remembered(number(1))); break;  // BINGET
      case 'j': stack_.push_back(remembered(number(4))); break;  // LONG_BINGET
      case 'c': global_from_lines(); break;                      // GLOBAL
      case 0x93: global_from_stack(); break;                     // STACK_GLOBAL
      case 'Q': persistent(); break;                             // BINPERSID
      case 'R': reduce(); break;                                 // REDUCE
      case 'b': pop(); break;  // BUILD: attributes of a state dict (_metadata), which no weight needs
      default: fail(fmt::format("its pickle uses the opcode 0x{:02x}, which weights do not need", opcode));
    }
  }

  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.size() - at_) fail("its pickle is truncated");
    const auto part = bytes_.subspan(at_, size);
    at_ += size;
    return part;
  }

  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    const auto bytes = take(size);
    for (std::size_t i = 0; i < size; ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
    return value;
  }

  std::int64_t long_integer(std::uint64_t size) {
    if (size > 8) fail("its pickle contains an integer of more than 64 bits");
    if (size == 0) return 0;
    const std::uint64_t value = number(size);
    const auto unused = static_cast<int>(64 - 8 * size);
    return static_cast<std::int64_t>(value << unused) >> unused;  // sign-extends two's complement
  }

  double big_endian_double() {
    std::uint64_t bits = 0;
    for (const std::byte byte : take(8)) bits = bits << 8 | static_cast<std::uint64_t>(byte);
    return std::bit_cast<double>(bits);
  }

  std::string text(std::uint64_t size) {
    const auto bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::string line() {
    std::string result;
    while (true) {
      const auto letter = static_cast<char>(take(1)[0]);
      if (letter == '\n') return result;
      result += letter;
    }
  }

  template <class Value>
  void push(Value value) {
    stack_.push_back(std::make_shared<Object>(Object{std::move(value)}));
  }

  Ref top() {
    if (stack_.empty()) fail("its pickle pops from an empty stack");
    return stack_.back();
  }

  Ref pop() {
    Ref object = top();
    stack_.pop_back();
    return object;
  }

  std::vector<Ref> pop_last(std::size_t count) {
    if (stack_.size() < count) fail("its pickle pops from an empty stack");
    std::vector<Ref> objects(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return objects;
  }

  std::vector<Ref> pop_to_mark() {
    std::size_t count = 0;
    while (count < stack_.size() && !std::holds_alternative<Mark>(stack_[stack_.size() - 1 - count]->value))
      ++count;
    std::vector<Ref> objects = pop_last(count);
    pop();  // the mark itself
    return objects;
  }

  Ref remembered(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail("its pickle refers to an object that does not exist");
    return found->second;
  }

  // Adds an item to a container. A container may grow only before it is put into another, which every writer
  // respects. So no container can contain itself, and depths stay correct.
  void put(Object& container, const Ref& item) {
    if (container.inside || item.get() == &container)
      fail("its pickle changes a container that is already in use");
    item->inside = true;
    container.depth = std::max(container.depth, item->depth + 1);
    if (container.depth > kDeepest) fail("its pickle is nested too deeply");
  }

  void push_list(const std::vector<Ref>& items) {
    push(Object::List{});
    append(items);
  }

  void append(const std::vector<Ref>& items) {
    const Ref container = top();
    auto* list = std::get_if<Object::List>(&container->value);
    if (!list) fail("its pickle appends to something that is not a list");
    for (const Ref& item : items) {
      put(*container, item);
      list->push_back(item);
    }
  }

  void set_items(const std::vector<Ref>& items) {
    const Ref container = top();
    auto* dict = std::get_if<Object::Dict>(&container->value);
    if (!dict || items.size() % 2 != 0) fail("its pickle sets items of something that is not a dict");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      put(*container, items[i]);
      put(*container, items[i + 1]);
      dict->emplace_back(items[i], items[i + 1]);
    }
  }

  void global_from_lines() {
    const std::string module = line();
    push_global(module, line());
  }

  void push_global(const std::string& module, const std::string& name) {
    if (module.size() + name.size() > kLongestGlobal) fail("its pickle has a global with too long a name");
    push(Global{module + "." + name});
  }

  void global_from_stack() {
    const std::vector<Ref> names = pop_last(2);
    const auto* module = std::get_if<std::string>(&names[0]->value);
    const auto* name = std::get_if<std::string>(&names[1]->value);
    if (!module || !name) fail("its pickle has a global whose name is not a string");
    push_global(*module, *name);
  }

  template <class Value>
  const Value& as(const Ref& object, const char* what) {
    const Value* value = std::get_if<Value>(&object->value);
    if (!value) fail(fmt::format("its pickle has {} of an unexpected type", what));
    return *value;
  }

  // Handles a persistent id: ("storage", type, key, device, size).
  void persistent() {
    const Ref id = pop();
    const auto& parts = as<Object::List>(id, "a storage");
    if (parts.size() != 5 || as<std::string>(parts[0], "a storage") != "storage")
      fail("its pickle has a persistent id that is not a storage");
    const std::string& type = as<Global>(parts[1], "a storage type").name;
    const auto known = storage_types().find(type);
    if (known == storage_types().end())
      fail(fmt::format("its pickle has a storage of the unknown type {}", type));
    const auto& key = as<std::string>(parts[2], "a storage key");
    if (key.size() > kLongestGlobal) fail("its pickle has a storage key that is too long");
    push(Storage{known->second, key});
  }

  void reduce() {
    const std::vector<Ref> call = pop_last(2);
    const std::string& function = as<Global>(call[0], "a call").name;
    const auto& arguments = as<Object::List>(call[1], "the arguments of a call");
    if (function == "collections.OrderedDict" && arguments.empty())
      push(Object::Dict{});
    else if (function == "torch._utils._rebuild_tensor_v2" && arguments.size() >= 4)
      push(tensor(arguments));
    else if (function == "torch._utils._rebuild_parameter" && !arguments.empty())
      stack_.push_back(arguments[0]);
    else
      fail(fmt::format("its pickle calls {}, which weights do not need and which could run any code",
                       function));
  }

  PickledTensor tensor(const Object::List& arguments) {
    PickledTensor tensor;
    const Storage& storage = as<Storage>(arguments[0], "a tensor's storage");
    tensor.dtype = storage.dtype;
    tensor.storage = storage.key;
    tensor.offset = as<std::int64_t>(arguments[1], "a tensor's offset");
    const auto& shape = as<Object::List>(arguments[2], "a tensor's shape");
    const auto& strides = as<Object::List>(arguments[3], "a tensor's strides");
    if (shape.size() > kMostDimensions) fail("its pickle has a tensor with too many dimensions");
    if (shape.size() != strides.size())
      fail("its pickle has a tensor whose shape and strides differ in length");
    for (const Ref& size : shape) tensor.shape.push_back(as<std::int64_t>(size, "a tensor's size"));
    for (const Ref& stride : strides) tensor.strides.push_back(as<std::int64_t>(stride, "a tensor's stride"));
    return tensor;
  }

  std::span<const std::byte> bytes_;
  const std::string& origin_;
  std::uint64_t at_ = 0;
  std::vector<Ref> stack_;
  std::unordered_map<std::uint64_t, Ref> memo_;
};

const Object* item_named(const Object::Dict& dict, std::string_view name) {
  for (const auto& [key, value] : dict)
    if (const auto* text = std::get_if<std::string>(&key->value); text && *text == name) return value.get();
  return nullptr;
}

}  // namespace

std::vector<PickledTensor> read_state_dict(std::span<const std::byte> pickle, const std::string& origin) {
  Machine machine(pickle, origin);
  const Ref root = machine.run();
  const auto* dict = std::get_if<Object::Dict>(&root->value);
  if (!dict) machine.fail("its pickle is not a dict");
  if (const Object* state = item_named(*dict, "state"))
    if (const auto* inner = std::get_if<Object::Dict>(&state->value)) dict = inner;
  std::vector<PickledTensor> tensors;
  for (const auto& [key, value] : *dict) {
    const auto* name = std::get_if<std::string>(&key->value);
    const auto* tensor = std::get_if<PickledTensor>(&value->value);
    if (!name || !tensor) continue;  // counters and similar values
    if (name->size() > kLongestName) machine.fail("its pickle has a tensor with too long a name");
    tensors.push_back(*tensor);
    tensors.back().name = *name;
  }
  return tensors;
}

}  // namespace dpo::checkpoint
