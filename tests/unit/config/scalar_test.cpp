#include "config/scalar.h"

#include <gtest/gtest.h>

#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

std::string read(std::string_view text) { return spelled(yaml_scalar(text, {})); }

TEST(Scalar, BooleansAndNullOfYaml11) {
  for (const char* text : {"yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"})
    EXPECT_EQ(read(text), "true");
  for (const char* text : {"no", "No", "NO", "off", "Off", "OFF", "false"}) EXPECT_EQ(read(text), "false");
  for (const char* text : {"", "~", "null", "Null", "NULL"}) EXPECT_EQ(read(text), "null");
  for (const char* text : {"y", "n", "yEs", "nULL", "oN"})
    EXPECT_EQ(read(text), '"' + std::string(text) + '"');
}

TEST(Scalar, IntegersOfYaml11) {
  EXPECT_EQ(read("0"), "0");
  EXPECT_EQ(read("-12"), "-12");
  EXPECT_EQ(read("+12"), "12");
  EXPECT_EQ(read("1_000"), "1000");
  EXPECT_EQ(read("0x1F"), "31");
  EXPECT_EQ(read("0b101"), "5");
  EXPECT_EQ(read("017"), "15");
  EXPECT_EQ(read("1:30"), "90");
  EXPECT_EQ(read("-1:30:00"), "-5400");
  EXPECT_EQ(read("123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(read("089"), "\"089\"");
  EXPECT_EQ(read("1:99"), "\"1:99\"");
  EXPECT_EQ(read("0x"), "\"0x\"");
  EXPECT_EQ(read("_1"), "\"_1\"");
}

TEST(Scalar, FloatsAsOmegaConfReadsThem) {
  EXPECT_EQ(read("5e-7"), "5e-07");
  EXPECT_EQ(read("1e5"), "100000.0");
  EXPECT_EQ(read("1."), "1.0");
  EXPECT_EQ(read(".5"), "0.5");
  EXPECT_EQ(read("-1.5E+2"), "-150.0");
  EXPECT_EQ(read("1_0.5"), "10.5");
  EXPECT_EQ(read(".inf"), "inf");
  EXPECT_EQ(read("-.INF"), "-inf");
  EXPECT_EQ(read(".NaN"), "nan");
  EXPECT_EQ(read("-.5"), "\"-.5\"");
  EXPECT_EQ(read(".5e3"), "\".5e3\"");
  EXPECT_EQ(read("1e"), "\"1e\"");
  EXPECT_EQ(read("."), "\".\"");
  EXPECT_EQ(read("._"), "\"._\"");
  EXPECT_EQ(read("inf"), "\"inf\"");
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
