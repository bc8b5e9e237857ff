#include "checkpoint/formats/index.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::checkpoint {
namespace {

std::string index_message(const std::string& text) {
  try {
    parse_weight_index(text, "i.json");
  } catch (const UserError& error) {
    return error.problems().front();
  }
  return "accepted";
}

TEST(WeightIndex, NamesTheFileOfEachTensor) {
  const WeightMap map = parse_weight_index(
      R"({"metadata": {"weight_map": {"no": 1}, "list": [{}, [2.5, null]]}, "weight_map": {"a": "1.bin", "b": "s/2.bin"}})",
      "i.json");
  EXPECT_EQ(map, (WeightMap{{"a", "1.bin"}, {"b", "s/2.bin"}}));
  EXPECT_TRUE(parse_weight_index(R"({"weight_map": {}})", "i.json").empty());
}

TEST(WeightIndex, RefusesFilesElsewhere) {
  for (const std::string file : {"../a", "/etc/passwd", "a/../../b", "", "..", "a/", ".", "./a", "a\\u0000b"})
    EXPECT_NE(index_message(R"({"weight_map": {"t": ")" + file + R"("}})").find("not a file in this folder"),
              std::string::npos)
        << file;
}

TEST(WeightIndex, RefusesWhatIsNotOne) {
  struct Case {
    std::string text, expected;
  };
  const Case cases[] = {
      {"", "not valid JSON"},
      {"[]", "it is not a JSON object"},
      {"\"x\"", "it is not a JSON object"},
      {"{}", "'weight_map' is missing"},
      {R"({"weight_map": 1})", "must map names"},
      {R"({"weight_map": "x"})", "must map names"},
      {R"({"weight_map": {"a": 1}})", "must map names"},
      {R"({"weight_map": {"a": {}}})", "must map names"},
      {R"({"weight_map": {"a": ["x"]}})", "must map names"},
      {R"({"weight_map": {"a": "x", "a": "y"}})", "tensor 'a' occurs twice"},
      {R"({"weight_map": {}, "weight_map": {}})", "'weight_map' occurs twice"},
      {R"({"other": )" + std::string(100'000, '['), "not valid JSON"},
  };
  for (const Case& c : cases) {
    const std::string message = index_message(c.text);
    EXPECT_EQ(message.rfind("i.json: not a weight index: ", 0), 0u) << message;
    EXPECT_NE(message.find(c.expected), std::string::npos) << message << "\nexpected: " << c.expected;
  }
}

}  // namespace
}  // namespace dpo::checkpoint
