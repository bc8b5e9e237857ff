#include "base/number_line.h"

#include <gtest/gtest.h>

namespace dpo {
namespace {

NamedNumbers numbers_of(std::string_view line) {
  NamedNumbers numbers = {{"left from another line", 7}};
  EXPECT_TRUE(read_numbers(line, numbers)) << line;
  return numbers;
}

TEST(NumberLine, HasTheNumbersOfTheOutermostObject) {
  EXPECT_EQ(numbers_of(R"({"b": 1, "a": null, "c": "x", "d": 2.5, "e": true, "f": -3e2})"),
            (NamedNumbers{{"b", 1}, {"d", 2.5}, {"f", -300}}));
  EXPECT_EQ(numbers_of(R"({"list": [1, {"x": 2}], "map": {"y": 3}, "n\u00e4me": 4})"),
            (NamedNumbers{{"näme", 4}}));
  EXPECT_TRUE(numbers_of("{}").empty());
  EXPECT_EQ(numbers_of(R"({"large": 18446744073709551616})")[0].second, 18446744073709551616.0);
}

TEST(NumberLine, OtherLinesHaveNone) {
  NamedNumbers numbers;
  for (const char* line :
       {"", "3", "[1]", "null", R"({"a": 1)", R"({"a": 1e999})", "{\"a\": 1}x", "{\"\xff\": 1}"}) {
    EXPECT_FALSE(read_numbers(line, numbers)) << line;
    EXPECT_TRUE(numbers.empty()) << line;
  }
  EXPECT_FALSE(read_numbers(std::string(100'000, '[') + "1", numbers));
  EXPECT_FALSE(read_numbers("{\"a\":" + std::string(100'000, '['), numbers));
}

}  // namespace
}  // namespace dpo
