#include "config/yaml_reader.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

std::string reading(const std::string& text) {
  try {
    return spelled(read_yaml(text, "f.yaml"));
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(YamlReader, QuotesAndTagsDecideTheKind) {
  EXPECT_EQ(reading("a: 5\nb: '5'\nc: !!str 5\nd: !!float 5\ne: \"x\\ty\""),
            "{a: 5, b: \"5\", c: \"5\", d: 5, e: \"x\ty\"}");
}

TEST(YamlReader, EmptyDocumentsAreEmptyMaps) {
  EXPECT_EQ(reading(""), "{}");
  EXPECT_EQ(reading("# only a comment\n"), "{}");
  EXPECT_EQ(reading("---\n...\n"), "{}");
}

TEST(YamlReader, AnchorsAliasesAndMergeKeys) {
  EXPECT_EQ(reading("a: &x [1, 2]\nb: *x"), "{a: [1, 2], b: [1, 2]}");
  EXPECT_EQ(reading("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}"), "{a: {p: 1, q: 2}, b: {q: 3, p: 1}}");
  EXPECT_EQ(reading("a: &x {p: 1}\nb: &y {p: 2, r: 3}\nc: {<<: [*x, *y]}"),
            "{a: {p: 1}, b: {p: 2, r: 3}, c: {p: 1, r: 3}}");
}

TEST(YamlReader, OriginsNameTheLine) {
  const Node root = read_yaml("a: 1\nb:\n  c: 2\n", "f.yaml");
  EXPECT_EQ(find_node(root, {"a"})->origin.label(), "f.yaml:1");
  EXPECT_EQ(find_node(root, {"b", "c"})->origin.label(), "f.yaml:3");
}

TEST(YamlReader, KeysNeedNotBeText) {
  EXPECT_EQ(reading("1: a\ntrue: b\nnull: c"), "{1: \"a\", true: \"b\", null: \"c\"}");
}

TEST(YamlReader, RefusesWhatIsNoConfiguration) {
  EXPECT_EQ(reading("- a\n- b\n"), "f.yaml: got [a, b] at the top level, expected a map (KEY: VALUE lines)");
  EXPECT_EQ(reading("just text"),
            "f.yaml: got 'just text' at the top level, expected a map (KEY: VALUE lines)");
  EXPECT_EQ(reading("a: 1\na: 2\n"), "f.yaml:2:1: 'a' is given twice, first in line 1");
  EXPECT_EQ(reading("x:\n  a: 1\n  b: 1\n  a: 2\n"), "f.yaml:4:3: 'a' is given twice, first in line 2");
  EXPECT_EQ(reading("? [a]\n: 1\n"), "f.yaml:1:3: a list or map as a key; expected a name");
  EXPECT_EQ(reading("a: !!int x\n"),
            "f.yaml:1:4: the tag 'tag:yaml.org,2002:int' does not fit 'x'; leave it out");
  EXPECT_EQ(reading("a: !mine [1]\n"), "f.yaml:1:4: unknown tag '!mine'; leave it out");
  EXPECT_EQ(reading("a: 1\n---\nb: 1\n"), "f.yaml: more than one document ('---'); expected one");
  EXPECT_EQ(reading("a: &x [*x]\n"), "f.yaml:1:8: an alias refers to the value that contains it");
  EXPECT_EQ(reading("a: {<<: 5}\n"), "f.yaml:1:9: '<<' takes a map or a list of maps");
  EXPECT_EQ(reading("a: \"x\\0y\"\n"), "f.yaml:1:4: a value contains control characters; expected text");
}

TEST(YamlReader, BadSyntaxNamesLineAndColumn) {
  EXPECT_TRUE(reading("a: [1, 2\nb: 3\n").starts_with("f.yaml:2:"));
  EXPECT_TRUE(reading("a:\n\t- b\n").starts_with("f.yaml:2:"));
  EXPECT_TRUE(reading("a: *nowhere\n").starts_with("f.yaml:1:4:"));
}

TEST(YamlReader, BytesThatAreNoText) {
  EXPECT_EQ(reading(std::string("a: 1\nb: x\0y\n", 12)),
            "f.yaml:2: byte 0x00 is not allowed; expected UTF-8 without control characters");
  EXPECT_EQ(reading("a: 1\n\nb: \xff\n"),
            "f.yaml:3: byte 0xff is not allowed; expected UTF-8 without control characters");
  EXPECT_EQ(reading("a: \xc3\xa9\n"), "{a: \"\xc3\xa9\"}");
  EXPECT_EQ(reading("\xef\xbb\xbf"
                    "a: 1\n"),
            "{a: 1}");
}

TEST(YamlReader, HostileSizesAreBounded) {
  EXPECT_TRUE(reading("a: " + std::string(1000, '[') + std::string(1000, ']'))
                  .ends_with("nested more than 64 levels deep"));
  EXPECT_TRUE(reading("a: " + std::string(100'000, '[')).find("f.yaml:1:") == 0);
  EXPECT_TRUE(reading("a: " + std::string(100'000, '{')).find("f.yaml:1:") == 0);
  std::string dashes = "a:\n";
  for (int i = 0; i < 100'000; ++i) dashes += "- ";
  EXPECT_TRUE(reading(dashes).ends_with("nested more than 64 levels deep"));
  EXPECT_TRUE(reading(std::string((1u << 20) + 1, 'a')).starts_with("f.yaml: larger than 1048576 bytes"));
  EXPECT_TRUE(reading(std::string(300, 'k') + ": 1\n").ends_with("a key is longer than 256 characters"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_TRUE(reading(bomb).ends_with("the aliases expand to more than 4 MiB"));
  std::string heavy = "a: &a " + std::string(100'000, 'x') + "\nb: [*a";
  for (int i = 0; i < 10'000; ++i) heavy += ", *a";
  EXPECT_TRUE(reading(heavy + "]\n").ends_with("the aliases expand to more than 4 MiB"));
  std::string many = "a: [1";
  for (int i = 0; i < 100'001; ++i) many += ",1";
  EXPECT_TRUE(reading(many + "]\n").ends_with("more than 100000 values"));
}

}  // namespace
}  // namespace dpo::config
