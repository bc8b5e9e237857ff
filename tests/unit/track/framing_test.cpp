#include "track/framing.h"

#include <sstream>

#include <gtest/gtest.h>

#include "track/protobuf.h"

namespace dpo::track {
namespace {

using namespace std::string_literals;

std::vector<std::string> tf_records(const std::string& file) {
  std::istringstream bytes(file);
  TfReader reader(bytes);
  std::vector<std::string> records;
  for (std::string record; reader.next(record);) records.push_back(record);
  return records;
}

TEST(Crc, TheCheckValuesOfThePolynomial) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(TfRecord, HasTheBytesThatTensorBoardWrites) {
  EXPECT_EQ(tf_record("abc"), "\x03\0\0\0\0\0\0\0\xb0\x99\x49\x0e"s + "abc" + "\x6e\x57\xf1\x21");
}

TEST(TfRecord, AFileIsReadUpToTheFirstBadRecord) {
  const std::string file = tf_record("one") + tf_record("") + tf_record("three");
  EXPECT_EQ(tf_records(file), (std::vector<std::string>{"one", "", "three"}));
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_LE(tf_records(file.substr(0, size)).size(), 2u) << size;
  std::string damaged = file;
  damaged[tf_record("one").size() - 5] ^= 1;  // the last letter of the first record
  EXPECT_TRUE(tf_records(damaged).empty());
}

TEST(Protobuf, HasTheBytesOfTheSpecification) {
  EXPECT_EQ(Message().number(1, 150).bytes(), "\x08\x96\x01");
  EXPECT_EQ(Message().text(2, "testing").bytes(), "\x12\x07testing");
  EXPECT_EQ(Message().number(1, -1).bytes(), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  EXPECT_EQ(Message().real(1, 1.0).bytes(), "\x09\0\0\0\0\0\0\xf0\x3f"s);
  EXPECT_EQ(Message().real32(2, 1.0f).bytes(), "\x15\0\0\x80\x3f"s);
  EXPECT_EQ(Message().number(16, 1).bytes(), "\x80\x01\x01");
}

TEST(Protobuf, FieldsAreReadUpToTheFirstThatIsCutOff) {
  const std::string message = Message().number(1, 300).text(16, "abc").real32(3, 2.5f).real(4, 0.1).bytes();
  const std::vector<Field> fields = fields_of(message);
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[0].value, 300u);
  EXPECT_EQ(fields[1].bytes, "abc");
  EXPECT_EQ(field_of(message, 16).bytes, "abc");
  EXPECT_EQ(field_of(message, 5).bytes, "");
  for (std::size_t size = 0; size < message.size(); ++size)
    EXPECT_LE(fields_of(std::string_view(message).substr(0, size)).size(), 3u);
}

}  // namespace
}  // namespace dpo::track
