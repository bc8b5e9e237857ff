#include "base/user_path.h"

#include <stdlib.h>

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"

namespace dpo {
namespace {

namespace fs = std::filesystem;

TEST(ExpandHome, TakesTheHomeFolderForATildeAtTheBeginning) {
  const std::string home = getenv("HOME") ? getenv("HOME") : "/";
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(expand_home("~/x/y"), "/home/me/x/y");
  EXPECT_EQ(expand_home("~"), "/home/me");
  for (const char* path : {"", "x", "/x", "a/~/b", "~other/x", "~x"}) EXPECT_EQ(expand_home(path), path);
  unsetenv("HOME");
  EXPECT_EQ(expand_home("~/x"), "~/x");
  setenv("HOME", home.c_str(), 1);
}

TEST(CanonicalInRun, LeavesACheckpointThatIsALinkInItsRun) {
  const fs::path folder = fs::canonical(testing::TempDir()) / "dpo_canonical_in_run";
  fs::remove_all(folder);
  fs::create_directories(folder / "disk" / "moved" / "inner");
  fs::create_directories(folder / "run" / "step-4");
  fs::create_symlink("../disk/moved", folder / "run" / "step-8");
  fs::create_symlink("step-8", folder / "run" / "LATEST");
  fs::create_symlink(folder / "run" / "LATEST", folder / "latest");
  fs::create_symlink("run", folder / "link");
  for (const char* path :
       {"run/step-8", "run/step-8/", "run/LATEST", "link/LATEST/", "latest", "link/step-8"})
    EXPECT_EQ(canonical_in_run(folder / path), folder / "run" / "step-8") << path;
  EXPECT_EQ(canonical_in_run(folder / "link" / "step-4"), folder / "run" / "step-4");
  EXPECT_EQ(canonical_in_run(folder / "link"), folder / "run");
  EXPECT_EQ(canonical_in_run(folder / "run" / "step-8" / "inner"), folder / "disk" / "moved" / "inner");
  EXPECT_THROW(canonical_in_run(folder / "absent"), fs::filesystem_error);
  fs::remove_all(folder);
}

TEST(RunFolderHint, NamesTheNewestCheckpoint) {
  const fs::path folder = fs::path(testing::TempDir()) / "dpo_run_folder_hint";
  fs::remove_all(folder);
  fs::create_directories(folder / "step-4");
  EXPECT_EQ(run_folder_hint(folder), "");
  for (const char* name : {"metrics.jsonl", "plan.json"}) std::ofstream(folder / name) << "{}";
  EXPECT_EQ(run_folder_hint(folder),
            "; " + folder.string() + " is the folder of a run that has no checkpoint yet");
  fs::create_symlink("step-4", folder / "LATEST");
  const std::string hint = "; " + folder.string() + " is the folder of a run: try " +
                           (folder / "LATEST").string() + ", its newest checkpoint";
  EXPECT_EQ(run_folder_hint(folder), hint);
  try {
    read_text_file(folder / "config.json", "model");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with(hint)) << error.what();
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace dpo
