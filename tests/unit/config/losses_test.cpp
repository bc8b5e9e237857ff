#include "config/losses.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/nearest.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

TEST(Losses, OwnKeysAreInTheSchema) {
  for (const Loss loss : all_choices<Loss>()) {
    std::string_view keys = facts_of(loss).keys;
    while (!keys.empty()) {
      const std::string key(keys.substr(0, keys.find(' ')));
      EXPECT_TRUE(find_field("loss." + key)) << name_of(loss) << " " << key;
      keys.remove_prefix(std::min(key.size() + 1, keys.size()));
    }
  }
}

TEST(Losses, UseTheReferenceUnlessToldOtherwise) {
  EXPECT_TRUE(uses_reference({.name = Loss::dpo}));
  EXPECT_FALSE(uses_reference({.name = Loss::dpo, .reference_free = true}));
  EXPECT_FALSE(uses_reference({.name = Loss::simpo}));
  EXPECT_FALSE(uses_reference({.name = Loss::sft}));
}

// docs/losses.md has a row for each loss, and names those without a reference and those with margins.
TEST(Losses, AreDescribed) {
  const std::string page = read_text_file(std::string(DPO_SOURCE_DIR) + "/docs/losses.md", "losses");
  std::vector<std::string> with_margins;
  for (const Loss loss : all_choices<Loss>()) {
    const LossFacts facts = facts_of(loss);
    const std::string code = fmt::format("`{}`", facts.name);
    const std::size_t row = page.find(fmt::format("\n| {} | ", code));
    ASSERT_NE(row, page.npos) << code;
    const std::string text = page.substr(row + 1, page.find('\n', row + 1) - row);
    if (facts.is_preference()) {
      EXPECT_EQ(text.find("no reference") == text.npos, facts.has_reference) << text;
    }
    if (facts.has_margins) with_margins.push_back(code);
  }
  const std::string last = with_margins.back();
  with_margins.pop_back();
  EXPECT_NE(page.find(fmt::format("{} and {} support margins", fmt::join(with_margins, ", "), last)),
            page.npos);
}

}  // namespace
}  // namespace dpo::config
