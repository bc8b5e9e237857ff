#include "config/interpolate.h"

#include <gtest/gtest.h>

#include "config/yaml_reader.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

// Returns the value of `x` in the document, or the problems.
std::string x_of(const std::string& document) {
  Node root = read_yaml(document, "f.yaml");
  std::vector<std::string> problems;
  interpolate(root, problems);
  std::string all;
  for (const std::string& problem : problems) all += (all.empty() ? "" : " / ") + problem;
  return all.empty() ? spelled(*find_child(root, "x")) : all;
}

TEST(Interpolate, ReferencesKeepTheirType) {
  EXPECT_EQ(x_of("x: ${y}\ny: 5"), "5");
  EXPECT_EQ(x_of("x: ${ y }\ny: 5e-7"), "5e-07");
  EXPECT_EQ(x_of("x: ${y.z}\ny: {z: [1, a]}"), "[1, \"a\"]");
  EXPECT_EQ(x_of("x: ${y.1}\ny: [1, a]"), "\"a\"");
  EXPECT_EQ(x_of("x: ${y[0]}\ny: [1, a]"), "1");
  EXPECT_EQ(x_of("x: ${y}\ny: ${z}\nz: null"), "null");
}

TEST(Interpolate, RelativeReferences) {
  EXPECT_EQ(x_of("x: {a: \"${.b}\", b: 2}"), "{a: 2, b: 2}");
  EXPECT_EQ(x_of("x: {a: \"${..y}\"}\ny: 3"), "{a: 3}");
}

TEST(Interpolate, InsideTextEverythingBecomesPythonsText) {
  EXPECT_EQ(x_of("x: a-${y}-${z}-${n}\ny: 5e-7\nz: true\nn: null"), "\"a-5e-07-True-None\"");
}

TEST(Interpolate, NestedReferences) {
  EXPECT_EQ(x_of("x: ${y.${z}}\ny: {k: 7}\nz: k"), "7");
  EXPECT_EQ(x_of("x: ${oc.env:DPO_NOT_SET,${y}}\ny: 7"), "7");
}

TEST(Interpolate, BackslashesProtect) {
  EXPECT_EQ(x_of("x: '\\${y}'\ny: 1"), "\"${y}\"");
  EXPECT_EQ(x_of("x: '\\\\${y}'\ny: 1"), "\"\\1\"");
  EXPECT_EQ(x_of("x: 'a\\b ${y}'\ny: 1"), "\"a\\b 1\"");
}

TEST(Interpolate, EscapingIsUndone) {
  for (const std::string text : {"${y}", "\\${y}", "a\\\\${y}$${", "plain", "\\", "$", "a\\b"}) {
    const std::string escaped = escape_interpolations(text);
    EXPECT_EQ(x_of("x: '" + escaped + "'\ny: 1"), '"' + text + '"') << escaped;
  }
}

TEST(Interpolate, Environment) {
  const Variable variable("DPO_TEST_SET", "some text");
  EXPECT_EQ(x_of("x: ${oc.env:DPO_TEST_SET}"), "\"some text\"");
  EXPECT_EQ(x_of("x: a/${oc.env:DPO_TEST_SET}"), "\"a/some text\"");
  EXPECT_EQ(x_of("x: ${oc.env:DPO_TEST_SET,other}"), "\"some text\"");
  EXPECT_EQ(x_of("x: '${oc.env: DPO_NOT_SET , other }'"), "\"other\"");
  EXPECT_EQ(x_of("x: \"${oc.env:DPO_NOT_SET,'a, b'}\""), "\"a, b\"");
  EXPECT_EQ(x_of("x: ${oc.env:DPO_NOT_SET,}"), "\"\"");
  EXPECT_EQ(x_of("x: ${oc.env:DPO_NOT_SET,null}"), "null");
}

TEST(KeptInterpolations, AreText) {
  const Variable variable("DPO_TEST_SET", "secret");
  const auto kept = [](const std::string& text) {
    Node root = make_map({});
    root.children.push_back(make_scalar(Node::Kind::Text, text, {}));
    keep_interpolations(root);
    return root.children[0].text;
  };
  for (const std::string text :
       {"${oc.env:DPO_TEST_SET}", "a${oc.env:DPO_TEST_SET}${x}", "${", "plain", R"(a\\${x})"})
    EXPECT_EQ(kept(text), text);
  // All texts that a run writes are read back unchanged.
  for (const std::string text :
       {"${oc.env:DPO_TEST_SET}", "a${x}b${y}", R"(\${x})", R"(\\${x}\)", "plain", "a$b{c}"})
    EXPECT_EQ(kept(escape_interpolations(text)), text);
}

TEST(Interpolate, ProblemsSayWhichAndWhere) {
  EXPECT_EQ(x_of("x: ${nope}"), "x: got '${nope}': unknown key 'nope' (f.yaml:1)");
  EXPECT_EQ(x_of("x: ${batchsize}"),
            "x: got '${batchsize}': unknown key 'batchsize'; did you mean 'batch_size'? (f.yaml:1)");
  EXPECT_EQ(x_of("x: ${x}"), "x: got '${x}': it refers to itself (f.yaml:1)");
  EXPECT_EQ(x_of("x: ${y}\ny: ${z}\nz: ${x}"), "z: got '${x}': it refers to itself (f.yaml:3)");
  EXPECT_EQ(x_of("x: {a: \"${x}\"}"), "x.a: got '${x}': it refers to itself (f.yaml:1)");
  EXPECT_EQ(x_of("x: ${oc.decode:5}"),
            "x: got '${oc.decode:5}': unknown resolver 'oc.decode', expected oc.env or a key (f.yaml:1)");
  EXPECT_EQ(x_of("x: '${y'"), "x: got '${y': '${' is not closed by '}' (f.yaml:1)");
  EXPECT_EQ(x_of("x: a${y}\ny: [1]"), "x: got 'a${y}': [1] cannot be part of a text (f.yaml:1)");
  EXPECT_EQ(x_of("x: ${y}\ny: ???"), "x: got '${y}': 'y' is not set (f.yaml:1)");
  EXPECT_EQ(x_of("x: ${..y}\ny: 1"), "x: got '${..y}': it points above the top level (f.yaml:1)");
  EXPECT_EQ(
      x_of("x: ${oc.env:DPO_NOT_SET}"),
      "x: got '${oc.env:DPO_NOT_SET}': the environment variable DPO_NOT_SET is not set; set it, or give a "
      "default: ${oc.env:DPO_NOT_SET,default} (f.yaml:1)");
}

TEST(Interpolate, OneProblemForAValueThatManyReferTo) {
  EXPECT_EQ(x_of("x: ${y}\ny: ${nope}\nz: ${y}"), "y: got '${nope}': unknown key 'nope' (f.yaml:2)");
}

TEST(Interpolate, HostileReferencesAreBounded) {
  std::string doubling = "x: ${v30}\nv0: aaaaaaaaaa\n";
  for (int i = 1; i <= 30; ++i)
    doubling +=
        "v" + std::to_string(i) + ": ${v" + std::to_string(i - 1) + "}${v" + std::to_string(i - 1) + "}\n";
  EXPECT_NE(x_of(doubling).find("references in a row"), std::string::npos);
  std::string sorted = "v0: aaaaaaaaaa\n";
  for (int i = 1; i <= 30; ++i)
    sorted +=
        "v" + std::to_string(i) + ": ${v" + std::to_string(i - 1) + "}${v" + std::to_string(i - 1) + "}\n";
  EXPECT_NE(x_of(sorted + "x: ${v30}").find("the text is too long"), std::string::npos);
  std::string lists = "v0: [1, 1]\n";
  for (int i = 1; i <= 30; ++i)
    lists += "v" + std::to_string(i) + ": [\"${v" + std::to_string(i - 1) + "}\", \"${v" +
             std::to_string(i - 1) + "}\"]\n";
  EXPECT_NE(x_of(lists + "x: ${v30}").find("expand to more than 4 MiB"), std::string::npos);
  std::string nested;
  for (int i = 0; i < 1000; ++i) nested += "${a.";
  EXPECT_NE(x_of("x: '" + nested + std::string(1000, '}') + "'").find("'{' nested too deeply"),
            std::string::npos);
}

}  // namespace
}  // namespace dpo::config
