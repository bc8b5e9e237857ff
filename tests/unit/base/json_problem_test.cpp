#include "base/json_problem.h"

#include <gtest/gtest.h>

namespace dpo {
namespace {

std::string what(std::string_view text) {
  const auto problem = json_problem(text, "line");
  return problem ? problem->what : "none";
}

TEST(JsonProblem, JsonHasNone) {
  for (const char* const text :
       {"{}", " [1, -2.5e3, 1e-400] ", R"({"a": ["\n\u00e9\ud83d\ude00", null, true]})", "0"})
    EXPECT_EQ(what(text), "none") << text;
}

TEST(JsonProblem, IsSaidInPlainWords) {
  struct Case {
    std::string_view text;
    const char* expected;
  };
  const Case cases[] = {
      {R"({"a": NaN})", "found NaN, expected a value; JSON has no NaN, write null"},
      {R"({"a": -Infinity})", "found -Infinity, expected a value; JSON has no -Infinity, write null"},
      {R"({"a": None})", "found None, expected a value; write null"},
      {R"({"a": True})", "found True, expected a value; write true or false"},
      {R"({"a": nul})", "found nul, expected a value"},
      {R"({"a": 01})", "found 01, expected a value"},
      {R"({"a": 1.})", "found 1., expected a value"},
      {R"({"a": 1e999})", "the number 1e999 is too large"},
      {R"({'a': 1})", "found a single quote, expected a name in double quotes; JSON has no single quotes"},
      {R"({"a": 'b'})", "found a single quote, expected a value; JSON has no single quotes"},
      {R"({a: 1})", "found a, expected a name in double quotes"},
      {R"({"a": 1, })", "found '}', expected a name in double quotes; remove the comma before it"},
      {R"([1, 2, ])", "found ']', expected a value; remove the comma before it"},
      {R"({"a" "b"})", "found '\"', expected a colon after the name"},
      {R"({"a": 1 "b": 2})", "found '\"', expected a comma or '}'"},
      {R"([1 2])", "found 2, expected a comma or ']'"},
      {R"({"a": 1} {"a": 2})", "found '{', expected the end of the line after the value"},
      {R"({"a": "b)", "the line ends inside a string"},
      {"{\"a\": \"b\\", "the line ends inside a string"},
      {R"({"a": )", "the line ends, expected a value"},
      {"{", "the line ends, expected a name in double quotes"},
      {"[1", "the line ends, expected a comma or ']'"},
      {"", "the line ends, expected a value"},
      {"{\"a\": \"b\tc\"}", "found a tab inside a string; write it as \\t"},
      {"{\"a\": \"b\nc\"}", "found a line break inside a string; write it as \\n"},
      {"{\"a\": \"\x01\"}", "found the control character 0x01 inside a string; write it as \\u0001"},
      {std::string_view("{\"a\": \0}", 8), "found the control character 0x00, expected a value"},
      {R"({"a": "C:\data"})", "found '\\data' inside a string; a backslash is written as \\\\"},
      {R"({"a": "\u12"})",
       "'\\u12' inside a string is not a character; expected \\u and four hexadecimal digits, "
       "or two of these for a character beyond them"},
      {R"({"a": "\ud800"})",
       "'\\ud800' inside a string is not a character; expected \\u and four hexadecimal digits, "
       "or two of these for a character beyond them"},
      {"{\"a\": \"caf\xe9\"}", "the byte 0xe9 is not UTF-8; save the file as UTF-8"},
      {"\u00e9", "found '\u00e9', expected a value"},
  };
  for (const Case& one : cases) EXPECT_EQ(what(one.text), one.expected) << one.text;
  EXPECT_EQ(what(std::string(2000, '[')), "nested more than 1000 levels deep");
}

TEST(JsonProblem, SaysWhere) {
  EXPECT_EQ(why_not_json("{\"\u00e9\": 1,\n \"\u00e9\": x}"),
            "not valid JSON at line 2, column 7: found x, expected a value; near ' \"\u00e9\": x}'");
  EXPECT_EQ(
      why_not_json("[1,"),
      "not valid JSON at line 1, column 4: the text ends, expected a value; near '[1,'; is it complete?");
  EXPECT_FALSE(json_problem("[1,]", "file")->ends_early);
}

TEST(JsonNesting, CountsListsAndObjectsOutsideOfStrings) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_FALSE(is_nested_deeply(nested(kDeepestJson)));
  EXPECT_TRUE(is_nested_deeply(nested(kDeepestJson + 1)));
  EXPECT_TRUE(is_nested_deeply("{\"a\": " + std::string(1 << 20, '{')));
  EXPECT_FALSE(is_nested_deeply("[\"\\\"" + nested(1000) + "\", \"" + nested(1000) + "\"]"));
  std::string flat = "[";
  for (int i = 0; i < 1000; ++i) flat += "[],";
  EXPECT_FALSE(is_nested_deeply(flat + "{}]"));
}

TEST(JsonProblem, ShowsAPieceOfALongLine) {
  const std::string words(100, 'w');
  const auto problem = json_problem("{\"a\": \"" + words + "\", \"b\" 1, \"c\": \"" + words + "\"}", "line");
  EXPECT_EQ(problem->column, 115u);
  EXPECT_EQ(problem->near,
            "..." + std::string(23, 'w') + "\", \"b\" 1, \"c\": \"" + std::string(21, 'w') + "...");
  // Characters stay whole, and unprintable bytes are replaced.
  std::string letters;
  for (int i = 0; i < 50; ++i) letters += "\u00e9";
  EXPECT_EQ(piece_of_line(letters, 51), "..." + letters.substr(0, 62) + "...");
  EXPECT_EQ(piece_of_line("\x01\xff\tb", 1), " \uFFFD b");
}

}  // namespace
}  // namespace dpo
