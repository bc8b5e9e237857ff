#include "config/override.h"

#include <gtest/gtest.h>

#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

std::string value_of(const std::string& word) { return spelled(*parse_override(word).value); }

TEST(Override, KindsAndKeys) {
  EXPECT_EQ(parse_override("a.b=c").kind, Override::Kind::Change);
  EXPECT_EQ(parse_override("a.b=c").key, "a.b");
  EXPECT_EQ(parse_override("+new=1").kind, Override::Kind::Add);
  EXPECT_EQ(parse_override("+new=1").key, "new");
  EXPECT_EQ(parse_override("++a.b-c=1").kind, Override::Kind::Force);
  EXPECT_EQ(parse_override("++a.b-c=1").key, "a.b-c");
  EXPECT_EQ(parse_override("~key").kind, Override::Kind::Delete);
  EXPECT_FALSE(parse_override("~key").value);
  EXPECT_EQ(spelled(*parse_override("~key=1").value), "1");
  EXPECT_EQ(parse_override("list.0=x").key, "list.0");
  EXPECT_EQ(parse_override("a=b").text, "a=b");
}

TEST(Override, Scalars) {
  EXPECT_EQ(value_of("k=5"), "5");
  EXPECT_EQ(value_of("k=-5"), "-5");
  EXPECT_EQ(value_of("k=+5"), "5");
  EXPECT_EQ(value_of("k=20_000"), "20000");
  EXPECT_EQ(value_of("k=5e-7"), "5e-07");
  EXPECT_EQ(value_of("k=1."), "1.0");
  EXPECT_EQ(value_of("k=-.5"), "-0.5");
  EXPECT_EQ(value_of("k=INF"), "inf");
  EXPECT_EQ(value_of("k=nan"), "nan");
  EXPECT_EQ(value_of("k=tRue"), "true");
  EXPECT_EQ(value_of("k=FALSE"), "false");
  EXPECT_EQ(value_of("k=Null"), "null");
  EXPECT_EQ(value_of("k=???"), "???");
  EXPECT_EQ(value_of("k="), "\"\"");
  EXPECT_EQ(value_of("k= "), "\"\"");
}

TEST(Override, TextThatLooksLikeOtherThings) {
  EXPECT_EQ(value_of("k=yes"), "\"yes\"");
  EXPECT_EQ(value_of("k=007"), "\"007\"");
  EXPECT_EQ(value_of("k=1__0"), "\"1__0\"");
  EXPECT_EQ(value_of("k=0x10"), "\"0x10\"");
  EXPECT_EQ(value_of("k=5e"), "\"5e\"");
  EXPECT_EQ(value_of("k=infinity"), "\"infinity\"");
  EXPECT_EQ(value_of("k='5'"), "\"5\"");
}

TEST(Override, PlainText) {
  EXPECT_EQ(value_of("k=/a/b.c-d_e"), "\"/a/b.c-d_e\"");
  EXPECT_EQ(value_of("k= two words "), "\"two words\"");
  EXPECT_EQ(value_of("k=a:b"), "\"a:b\"");
  EXPECT_EQ(value_of("k=a%b*c@d?e|f$"), "\"a%b*c@d?e|f$\"");
  EXPECT_EQ(value_of("k=caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(value_of("k=a\\,b\\=c\\ "), "\"a,b=c \"");
  EXPECT_EQ(value_of("k=a\\\\b"), "\"a\\b\"");
  EXPECT_EQ(value_of("k=a\\b"), "\"a\\b\"");
  EXPECT_EQ(value_of("k=\\5"), "\"\\5\"");
}

TEST(Override, Quotes) {
  EXPECT_EQ(value_of("k='a, b=c # d'"), "\"a, b=c # d\"");
  EXPECT_EQ(value_of("k=\"it's\""), "\"it's\"");
  EXPECT_EQ(value_of("k='it\\'s'"), "\"it's\"");
  EXPECT_EQ(value_of("k='a\\nb'"), "\"a\\nb\"");
  EXPECT_EQ(value_of("k=\"a\\\\\""), "\"a\\\"");
  EXPECT_EQ(value_of("k=\"a\\\\\\\"b\""), "\"a\\\"b\"");
  EXPECT_EQ(value_of("k=''"), "\"\"");
  EXPECT_EQ(value_of("k='null'"), "\"null\"");
}

TEST(Override, ListsAndMaps) {
  EXPECT_EQ(value_of("k=[]"), "[]");
  EXPECT_EQ(value_of("k=[hh,shp]"), "[\"hh\", \"shp\"]");
  EXPECT_EQ(value_of("k=[ 1 , 'a b' , null ]"), "[1, \"a b\", null]");
  EXPECT_EQ(value_of("k={}"), "{}");
  EXPECT_EQ(value_of("k={a: 1, b: {c: [d, 2.5]}}"), "{a: 1, b: {c: [\"d\", 2.5]}}");
  EXPECT_EQ(value_of("k={a:b:c}"), "{a: \"b:c\"}");
  EXPECT_EQ(value_of("k={a:1,a:2}"), "{a: 2}");
}

TEST(Override, ReferencesStayText) {
  EXPECT_EQ(value_of("k=${lr}"), "\"${lr}\"");
  EXPECT_EQ(value_of("k=x-${oc.env:A,b c}-y"), "\"x-${oc.env:A,b c}-y\"");
  EXPECT_EQ(value_of("k=${oc.env:A,${lr}}"), "\"${oc.env:A,${lr}}\"");
  EXPECT_EQ(value_of("k=[${a},${b}]"), "[\"${a}\", \"${b}\"]");
}

}  // namespace
}  // namespace dpo::config
