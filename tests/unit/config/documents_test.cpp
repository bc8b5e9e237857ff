// Checks that the files generated from the schema are current.
#include <gtest/gtest.h>

#include "base/files.h"
#include "config/assets.h"
#include "config/print.h"

namespace dpo::config {
namespace {

const std::filesystem::path kSource = DPO_SOURCE_DIR;

TEST(Documents, DefaultConfigIsCurrent) {
  EXPECT_EQ(read_text_file(kSource / "configs/config.yaml", "defaults"), default_config_yaml())
      << "write it again: dpo config --defaults > configs/config.yaml";
  EXPECT_EQ(asset("config.yaml").value(), default_config_yaml());
}

TEST(Documents, ReferencePageIsCurrent) {
  EXPECT_EQ(read_text_file(kSource / "docs/configuration.md", "reference page"), configuration_markdown())
      << "write it again: dpo config --markdown > docs/configuration.md";
}

}  // namespace
}  // namespace dpo::config
