#include "checkpoint/formats/pickle.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::checkpoint {
namespace {

// Helpers that write pickle by hand, in protocol 2 as torch.save does.
std::string text(const std::string& value) {
  return std::string("X") + static_cast<char>(value.size()) + std::string(3, '\0') + value;
}
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string number(int value) { return std::string("K") + static_cast<char>(value); }

// _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks), of shape [2, 3].
std::string tensor(const std::string& key, const std::string& type = "FloatStorage") {
  return global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") + global("torch", type) +
         text(key) + text("cpu") + number(6) + "tQ" + number(0) + number(2) + number(3) + "\x86" + number(3) +
         number(1) + "\x86" + "\x89" + global("collections", "OrderedDict") + ")RtR";
}

std::vector<PickledTensor> read(const std::string& body) {
  const std::string pickle = "\x80\x02" + body + ".";
  return read_state_dict(std::as_bytes(std::span(pickle)), "policy.pt");
}

std::string pickle_message(const std::string& body) {
  try {
    read(body);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Pickle, ReadsAStateDict) {
  const auto tensors = read(global("collections", "OrderedDict") + ")R(" + text("a.weight") + tensor("0") +
                            text("b") + tensor("1", "HalfStorage") + "u");
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a.weight");
  EXPECT_EQ(tensors[0].dtype, Dtype::F32);
  EXPECT_EQ(tensors[0].storage, "0");
  EXPECT_EQ(tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensors[0].strides, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(tensors[1].dtype, Dtype::F16);
}

TEST(Pickle, ReadsTheOriginalsPolicy) {
  // This is {"step_idx": 3, "state": {...}, "metrics": {"loss": [0.5]}}, with memoized objects and a state
  // dict's attributes.
  const std::string half = std::string("G?\xe0", 3) + std::string(6, '\0');
  const auto tensors =
      read("}q\x01(" + text("step_idx") + number(3) + text("state") + "}(" + text("w") + tensor("0") + "u}b" +
           text("metrics") + "}" + text("loss") + "]" + half + "as" + "u");
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "w");
}

TEST(Pickle, RefusesEverythingElse) {
  struct Case {
    std::string body, expected;
  };
  std::string deep = "N";
  for (int i = 0; i < 100'000; ++i) deep += "\x85";
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += number(1);
  const std::string many_dimensions = global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") +
                                      global("torch", "FloatStorage") + text("0") + text("cpu") + number(6) +
                                      "tQ" + number(0) + "(" + ones + "t(" + ones + "ttR";
  const Case cases[] = {
      {global("os", "system") + text("rm -rf /") + "\x85R", "its pickle calls os.system"},
      {global("builtins", "eval") + text("1") + "\x85R", "its pickle calls builtins.eval"},
      {global("torch._utils", "_rebuild_tensor_v2") + ")R",
       "its pickle calls torch._utils._rebuild_tensor_v2"},
      {"i"
       "os\nsystem\n",
       "its pickle uses the opcode 0x69"},
      {"\x81", "its pickle uses the opcode 0x81"},
      {"N", "its pickle is not a dict"},
      {"", "empty stack"},
      {"0", "empty stack"},
      {"\x87", "empty stack"},
      {"t", "empty stack"},
      {"h\x05", "refers to an object that does not exist"},
      {"X\xff\xff\xff\xff"
       "abc",
       "its pickle is truncated"},
      {"c"
       "os",
       "its pickle is truncated"},
      {"\x8a\x09"
       "123456789",
       "an integer of more than 64 bits"},
      {"NNa", "appends to something that is not a list"},
      {"NNNs", "sets items of something that is not a dict"},
      {"}(NNNu", "sets items of something that is not a dict"},
      {"]q\x01h\x01"
       "a",
       "a container that is already in use"},  // a list that contains itself
      {"]q\x01]q\x02h\x01"
       "a0h\x01h\x02"
       "a",
       "a container that is already in use"},  // two lists that contain each other
      {deep, "nested too deeply"},
      {tensor("0", "OtherStorage"), "a storage of the unknown type torch.OtherStorage"},
      {"NQ", "a storage of an unexpected type"},
      {"NNR", "a call of an unexpected type"},
      // A small file could have these copied until the memory is full.
      {global(std::string(300, 'm'), "x"), "a global with too long a name"},
      {tensor(std::string(200, '0') + "1"), "a storage key that is too long"},
      {many_dimensions, "a tensor with too many dimensions"},
      {"}X" + std::string("\xe9\x03\0\0", 4) + std::string(1001, 'n') + tensor("0") + "s",
       "a tensor with too long a name"},
  };
  for (const Case& c : cases) {
    const std::string message = pickle_message(c.body);
    EXPECT_EQ(message.rfind("policy.pt: ", 0), 0u) << message;
    EXPECT_NE(message.find(c.expected), std::string::npos) << message << "\nexpected: " << c.expected;
  }
}

}  // namespace
}  // namespace dpo::checkpoint
