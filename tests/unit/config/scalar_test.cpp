#include "config/scalar.h"

#include <gtest/gtest.h>

#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

std::string read_scalar(std::string_view text) { return spelled(yaml_scalar(text, {})); }

TEST(Scalar, BooleansAndNullOfYaml11) {
  for (const char* text : {"yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"})
    EXPECT_EQ(read_scalar(text), "true");
  for (const char* text : {"no", "No", "NO", "off", "Off", "OFF", "false"})
    EXPECT_EQ(read_scalar(text), "false");
  for (const char* text : {"", "~", "null", "Null", "NULL"}) EXPECT_EQ(read_scalar(text), "null");
  for (const char* text : {"y", "n", "yEs", "nULL", "oN"})
    EXPECT_EQ(read_scalar(text), '"' + std::string(text) + '"');
}

TEST(Scalar, IntegersOfYaml11) {
  EXPECT_EQ(read_scalar("0"), "0");
  EXPECT_EQ(read_scalar("-12"), "-12");
  EXPECT_EQ(read_scalar("+12"), "12");
  EXPECT_EQ(read_scalar("1_000"), "1000");
  EXPECT_EQ(read_scalar("0x1F"), "31");
  EXPECT_EQ(read_scalar("0b101"), "5");
  EXPECT_EQ(read_scalar("017"), "15");
  EXPECT_EQ(read_scalar("1:30"), "90");
  EXPECT_EQ(read_scalar("-1:30:00"), "-5400");
  EXPECT_EQ(read_scalar("123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(read_scalar("089"), "\"089\"");
  EXPECT_EQ(read_scalar("1:99"), "\"1:99\"");
  EXPECT_EQ(read_scalar("0x"), "\"0x\"");
  EXPECT_EQ(read_scalar("_1"), "\"_1\"");
}

TEST(Scalar, FloatsAsOmegaConfReadsThem) {
  EXPECT_EQ(read_scalar("5e-7"), "5e-07");
  EXPECT_EQ(read_scalar("1e5"), "100000.0");
  EXPECT_EQ(read_scalar("1."), "1.0");
  EXPECT_EQ(read_scalar(".5"), "0.5");
  EXPECT_EQ(read_scalar("-1.5E+2"), "-150.0");
  EXPECT_EQ(read_scalar("1_0.5"), "10.5");
  EXPECT_EQ(read_scalar(".inf"), "inf");
  EXPECT_EQ(read_scalar("-.INF"), "-inf");
  EXPECT_EQ(read_scalar(".NaN"), "nan");
  EXPECT_EQ(read_scalar("-.5"), "\"-.5\"");
  EXPECT_EQ(read_scalar(".5e3"), "\".5e3\"");
  EXPECT_EQ(read_scalar("1e"), "\"1e\"");
  EXPECT_EQ(read_scalar("."), "\".\"");
  EXPECT_EQ(read_scalar("._"), "\"._\"");
  EXPECT_EQ(read_scalar("inf"), "\"inf\"");
}

TEST(Scalar, NumbersThatDoNotFit) {
  EXPECT_EQ(to_int("9223372036854775807"), 9223372036854775807);
  EXPECT_EQ(to_int("-9223372036854775808"), INT64_MIN);
  EXPECT_FALSE(to_int("9223372036854775808"));
  EXPECT_FALSE(to_double("1e999"));
  EXPECT_DOUBLE_EQ(to_double("1e308").value(), 1e308);
}

TEST(Scalar, FloatTextReadsBackAsTheSameNumber) {
  for (const double value : {10.0, 5e-7, 0.1, 1e16, 123456789.0, 1e-5, -2.5, 1.0 / 3})
    EXPECT_EQ(to_double(float_text(value)).value(), value) << float_text(value);
  EXPECT_EQ(float_text(10.0), "10.0");
  EXPECT_EQ(float_text(1e16), "1e+16");
}

}  // namespace
}  // namespace dpo::config
