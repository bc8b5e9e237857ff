#include "checkpoint/formats/gguf.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Gguf : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "gguf_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static GgufTensor tensor(const std::vector<float>& values, GgufDtype dtype) {
    return {"t", dtype, {static_cast<std::int64_t>(values.size())}, [&values] { return std::span(values); }};
  }

  std::string message_of(const std::vector<float>& values, GgufDtype dtype) {
    try {
      write_gguf(folder_ / "bad.gguf", {}, {tensor(values, dtype)}, {});
    } catch (const UserError& error) {
      return fs::exists(folder_ / "bad.gguf") ? "a file was left" : error.what();
    }
    return "accepted";
  }

  fs::path folder_;
};

TEST_F(Gguf, HalfPrecision) {
  const auto bits = [](float value, GgufDtype dtype) {
    const auto bytes = gguf_bytes(std::span(&value, 1), dtype);
    return static_cast<unsigned>(bytes[0]) | static_cast<unsigned>(bytes[1]) << 8;
  };
  EXPECT_EQ(bits(1.0F, GgufDtype::f16), 0x3C00U);
  EXPECT_EQ(bits(-2.5F, GgufDtype::f16), 0xC100U);
  EXPECT_EQ(bits(65504.0F, GgufDtype::f16), 0x7BFFU);
  EXPECT_EQ(bits(65520.0F, GgufDtype::f16), 0x7C00U);          // rounds up to infinity
  EXPECT_EQ(bits(std::ldexp(1.0F, -24), GgufDtype::f16), 1U);  // the smallest number
  EXPECT_EQ(bits(std::ldexp(1.0F, -25), GgufDtype::f16), 0U);  // a tie goes to the even neighbor
  EXPECT_EQ(bits(std::ldexp(3.0F, -25), GgufDtype::f16), 2U);
  EXPECT_EQ(bits(1 + std::ldexp(1.0F, -11), GgufDtype::f16), 0x3C00U);
  EXPECT_EQ(bits(1 + std::ldexp(3.0F, -11), GgufDtype::f16), 0x3C02U);
  EXPECT_EQ(bits(1 + std::ldexp(1.0F, -8), GgufDtype::bf16), 0x3F80U);
  EXPECT_EQ(bits(1 + std::ldexp(3.0F, -8), GgufDtype::bf16), 0x3F82U);
}

TEST_F(Gguf, Blocks) {
  std::vector<float> values(kGgufBlock, 0.0F);
  EXPECT_EQ(bytes_of(gguf_bytes(values, GgufDtype::q8_0)), std::string(34, '\0'));
  EXPECT_EQ(bytes_of(gguf_bytes(values, GgufDtype::q4_0)),
            std::string("\x00\x80", 2) + std::string(16, '\x88'));  // 0 / -8 is -0
  values[0] = 127;
  values[1] = -63.5F;  // a half is rounded away from zero
  values[16] = -1;
  const std::string wide = bytes_of(gguf_bytes(values, GgufDtype::q8_0));
  EXPECT_EQ(wide.substr(0, 4), std::string("\x00\x3C\x7F\xC0", 4));
  EXPECT_EQ(wide[18], '\xFF');
  values[0] = -8;  // becomes 0; the scale is 1
  values[1] = 7;   // becomes 15
  const std::string narrow = bytes_of(gguf_bytes(values, GgufDtype::q4_0));
  EXPECT_EQ(narrow.substr(0, 4), std::string("\x00\x3C\x70\x8F", 4));
}

TEST_F(Gguf, File) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const GgufTensor matrix{"m", GgufDtype::f32, {2, 3}, [&values] { return std::span(values); }};
  std::int64_t total = 0;
  const std::uint64_t size =
      write_gguf(folder_ / "a.gguf", {{"k", std::uint32_t{7}}, {"names", std::vector<std::string>{"x"}}},
                 {matrix}, [&](std::int64_t, std::int64_t all) { total = all; });
  const std::string file = read_text_file(folder_ / "a.gguf", "the test");
  EXPECT_EQ(file.size(), size);
  EXPECT_EQ(total, 24);
  const auto number = [](std::uint64_t value, std::size_t bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  std::string head = "GGUF" + number(3, 4) + number(1, 8) + number(2, 8);
  head += number(1, 8) + "k" + number(4, 4) + number(7, 4);
  head += number(5, 8) + "names" + number(9, 4) + number(8, 4) + number(1, 8) + number(1, 8) + "x";
  head += number(1, 8) + "m" + number(2, 4) + number(3, 8) + number(2, 8) + number(0, 4) + number(0, 8);
  EXPECT_EQ(file.substr(0, head.size()), head);
  EXPECT_EQ(file.size() % 32, 0U);
  EXPECT_EQ(file.substr(file.size() - 32, 24), bytes_of(std::as_bytes(std::span(values))));
}

TEST_F(Gguf, NumbersThatDoNotFit) {
  EXPECT_EQ(message_of({1, 70000}, GgufDtype::f16),
            "tensor 't' contains 70000, which f16 cannot represent; use bf16 or f32");
  std::vector<float> block(kGgufBlock, 1.0F);
  block[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(message_of(block, GgufDtype::q8_0),
            "tensor 't' contains nan, which q8_0 cannot represent; use bf16 or f32");
  EXPECT_EQ(message_of({70000}, GgufDtype::bf16), "accepted");
}

}  // namespace
}  // namespace dpo::checkpoint
