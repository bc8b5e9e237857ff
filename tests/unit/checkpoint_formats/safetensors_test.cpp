#include "checkpoint/formats/safetensors.h"

#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i));
  return file + rest;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, 'd'));
}

Header parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "w.safetensors");
}

std::string safetensors_message(const std::string& file) {
  try {
    parse(file);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}";
}

TEST(Safetensors, ReadsWhatIsLegal) {
  const Header header = parse(
      file_of("{\"__metadata__\":{\"format\":\"pt\"}," + tensor("b", "BF16", "[2,3]", "[8,20]") + "," +
                  tensor("a", "F64", "[]", "[0,8]") + "," + tensor("z", "F32", "[0,5]", "[20,20]") + "}   ",
              20));
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_TRUE(header.entries[0].shape.empty());
  EXPECT_EQ(header.entries[1].dtype, Dtype::BF16);
  EXPECT_EQ(header.entries[2].shape, (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_TRUE(parse(file_of("{}", 0)).entries.empty());
}

TEST(Safetensors, RefusesWhatIsNot) {
  struct Case {
    std::string file, expected;
  };
  const std::string good = tensor("a", "F32", "[2]", "[0,8]");
  const Case cases[] = {
      {"", "it has 0 bytes"},
      {"1234567", "it has 7 bytes"},
      {with_length(UINT64_MAX, "{}"), "its header claims 18446744073709551615 bytes, the limit is 100000000"},
      {with_length(100'000'001, "{}"), "the limit is 100000000"},
      {with_length(3, "{}"), "its header claims 3 bytes, the file has 10"},
      {file_of("", 0), "not valid JSON"},
      {file_of("{", 0), "not valid JSON"},
      {file_of("[]", 0), "a list in an unexpected place"},
      {file_of("3", 0), "a number in an unexpected place"},
      {file_of("null", 0), "null in an unexpected place"},
      {file_of("{\"a\":1}", 0), "a number in an unexpected place"},
      {file_of("{\"a\":\"x\"}", 0), "a string in an unexpected place"},
      {file_of("{\"a\":{}}", 0), "tensor 'a': 'dtype' is missing"},
      {file_of("{\"a\":{\"dtype\":{}}}", 0), "an object in an unexpected place"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[[1]]}}", 0), "a list in an unexpected place"},
      {file_of("{\"a\":{\"dtype\":[1]}}", 0), "a list in an unexpected place"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"other\":1}}", 0), "unknown field 'other'"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\"}}", 0), "'dtype' occurs twice"},
      {file_of("{" + tensor("a", "F99", "[2]", "[0,8]") + "}", 8), "unknown dtype 'F99'"},
      {file_of("{" + good + "," + good + "}", 8), "the name 'a' occurs twice"},
      {file_of("{" + tensor("a", "F32", "[-2]", "[0,8]") + "}", 8), "the number -2 is negative"},
      {file_of("{" + tensor("a", "F32", "[2.0]", "[0,8]") + "}", 8), "'2.0' is not a whole number"},
      {file_of("{" + tensor("a", "F32", "[true]", "[0,8]") + "}", 8), "true or false"},
      {file_of("{" + tensor("a", "F32", "[2]", "[0,8,9]") + "}", 8), "'data_offsets' has 3 numbers"},
      {file_of("{" + tensor("a", "F32", "[2]", "[8,0]") + "}", 8), "'data_offsets' are reversed"},
      {file_of("{" + tensor("a", "F32", "[2]", "[0,9]") + "}", 9), "tensor 'a' has 9 bytes"},
      {file_of("{" + tensor("a", "F32", "[2]", "[4,12]") + "}", 12),
       "tensor 'a' begins at byte 4, expected 0"},
      {file_of("{" + good + "," + tensor("b", "F32", "[2]", "[4,12]") + "}", 12),
       "'b' begins at byte 4, expected 8"},
      {file_of("{" + good + "}", 9), "the tensors end at byte 8 of the data, the file at 9"},
      {file_of("{" + good + "}", 7), "the tensors end at byte 8 of the data, the file at 7"},
      // 2^62 * 4 * 4 wraps to 0 in 64 bits.
      {file_of("{" + tensor("a", "F32", "[4611686018427387904,4]", "[0,0]") + "}", 0),
       "tensor 'a' has 0 bytes"},
      {file_of("{" + tensor("a", "F32", "[18446744073709551615]", "[0,8]") + "}", 8), "is too large"},
      {file_of("{\"a\":" + std::string(100'000, '['), 0), "a list in an unexpected place"},
      {file_of("{\"__metadata__\":{\"a\":1}}", 0), "a number in an unexpected place"},
  };
  for (const Case& c : cases) {
    const std::string message = safetensors_message(c.file);
    EXPECT_EQ(message.rfind("w.safetensors: not a valid safetensors file: ", 0), 0u) << message;
    EXPECT_NE(message.find(c.expected), std::string::npos) << message << "\nexpected: " << c.expected;
  }
}

class SafetensorsFiles : public testing::Test {
 protected:
  SafetensorsFiles() : folder_(fs::path(testing::TempDir()) / "dpo_safetensors_test") {
    fs::create_directories(folder_);
  }
  ~SafetensorsFiles() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(SafetensorsFiles, AreReadAsWritten) {
  const std::vector<float> floats = {1, 2, 3};
  const std::vector<std::int64_t> numbers = {7};
  const fs::path path = folder_ / "model.safetensors";
  write_safetensors(path, {{"b.bias", Dtype::F32, {3}, [&] { return std::as_bytes(std::span(floats)); }},
                           {"a.count", Dtype::I64, {1}, [&] { return std::as_bytes(std::span(numbers)); }},
                           {"a.empty", Dtype::F32, {0}, [] { return std::span<const std::byte>{}; }}});
  const SafetensorsFile file(path);
  ASSERT_EQ(file.header().entries.size(), 3u);
  EXPECT_EQ(file.header().entries[0].name, "a.count");  // the wider dtype first, then by name
  EXPECT_EQ(file.header().entries[1].name, "a.empty");
  EXPECT_EQ(file.header().entries[2].name, "b.bias");
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_EQ(file.header().data_start % 8, 0u);
  const auto bytes = file.bytes_of(file.header().entries[2]);
  ASSERT_EQ(bytes.size(), 12u);
  EXPECT_EQ(std::memcmp(bytes.data(), floats.data(), 12), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "temporary files are left";
}

TEST_F(SafetensorsFiles, KeepTheOldOneWhenWritingFails) {
  const fs::path path = folder_ / "model.safetensors";
  std::ofstream(path) << "old";
  const auto broken = []() -> std::span<const std::byte> { throw std::runtime_error("no such tensor"); };
  EXPECT_THROW(write_safetensors(path, {{"a", Dtype::F32, {1}, broken}}), std::runtime_error);
  EXPECT_EQ(read_text_file(path, "test"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "temporary files are left";
}

TEST_F(SafetensorsFiles, AMissingOneIsNamed) {
  EXPECT_THROW(SafetensorsFile(folder_ / "none.safetensors"), UserError);
  EXPECT_THROW(write_safetensors(folder_ / "no" / "such" / "folder", {}), UserError);
}

}  // namespace
}  // namespace dpo::checkpoint
