#include "checkpoint/formats/quant_state.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::checkpoint {
namespace {

TEST(QuantState, OfBitsandbytes) {
  const QuantState plain = parse_quant_state(
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [32, 64]})", "t");
  EXPECT_EQ(plain.shape, (std::vector<std::int64_t>{32, 64}));
  EXPECT_FALSE(plain.offset);
  const QuantState nested = parse_quant_state(
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [1, 2], "nested_blocksize": 256,
          "nested_dtype": "float32", "nested_offset": 0.10000000149011612})",
      "t");
  EXPECT_EQ(nested.offset, 0.1F);  // all bits of a float
}

TEST(QuantState, RefusesOtherForms) {
  struct Case {
    const char *text, *expected;
  };
  const Case cases[] = {
      {"", "it is not a JSON object"},
      {"[]", "it is not a JSON object"},
      {R"({"quant_type": "fp4", "blocksize": 64, "shape": [2, 2]})",
       "'quant_type' is \"fp4\", expected \"nf4\""},
      {R"({"blocksize": 64, "shape": [2, 2]})", "'quant_type' is missing"},
      {R"({"quant_type": "nf4", "blocksize": 64, "shape": [2, 2], "nested_blocksize": 256,
           "nested_dtype": "float32", "nested_offset": 1e300})",
       "expected a number of 32 bits"},
      {R"({"quant_type": "nf4", "blocksize": 128, "shape": [2, 2]})", "'blocksize' is 128, expected 64"},
      {R"({"quant_type": "nf4", "blocksize": [], "shape": [2, 2]})", "'blocksize' is a list"},
      {R"({"quant_type": "nf4", "blocksize": 64, "shape": [2]})", "'shape' is not that of a matrix"},
      {R"({"quant_type": "nf4", "blocksize": 64, "shape": [2, -2]})", "'shape' is not that of a matrix"},
      {R"({"quant_type": "nf4", "blocksize": 64, "shape": [2, 2000000000]})",
       "'shape' is not that of a matrix"},
      {R"({"quant_type": "nf4", "blocksize": 64, "shape": [2, 2], "nested_blocksize": 64, "nested_offset": 1})",
       "'nested_blocksize' is 64, expected 256"},
      {R"({"quant_type": "nf4", "blocksize": 64, "shape": [2, 2], "nested_blocksize": 256})",
       "'nested_offset' is missing, expected a number"},
  };
  for (const Case& c : cases) {
    std::string message = "accepted";
    try {
      parse_quant_state(c.text, "file: tensor 't'");
    } catch (const UserError& error) {
      message = error.what();
    }
    EXPECT_TRUE(message.starts_with("file: tensor 't': ")) << message;
    EXPECT_NE(message.find(c.expected), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace dpo::checkpoint
