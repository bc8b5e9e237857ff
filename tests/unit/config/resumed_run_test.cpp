#include "config/resumed_run.h"

#include <gtest/gtest.h>

#include "config/compose.h"
#include "config/defaults.h"
#include "config/print.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

namespace fs = std::filesystem;

// Writes a run folder with the configuration of a run and a checkpoint.
void write_run(const TempFolder& run, const Words& words) {
  run.write("config.yaml", to_yaml(compose({words, {}, {}})));
  fs::create_directories(run.path() / "step-40");
  fs::create_directory_symlink("step-40", run.path() / "LATEST");
}

const Words kRun = {"model=pythia28",
                    "loss=dpo",
                    "loss.beta=0.3",
                    "exp_name=e",
                    "optimizer=AdamW",
                    "batch_size=32",
                    "model.policy_dtype=bfloat16",
                    "overwrite=true"};

RunConfig resumed(const std::string& resume, Words more = {}) {
  more.push_back("resume=" + resume);
  return compose({more, {}, {}}).values;
}

TEST(ResumedRun, KnowsItsConfiguration) {
  const TempFolder run;
  write_run(run, kRun);
  RunConfig whole = compose({kRun, {}, {}}).values;
  whole.overwrite = false;
  for (const char* const folder : {"", "step-40", "LATEST"}) {
    whole.resume = (run.path() / folder).string();
    Resolved now = compose({{"resume=" + *whole.resume}, {}, {}});
    EXPECT_EQ(to_yaml({now.values, now.tree, {}}), to_yaml({whole, now.tree, {}})) << folder;
    EXPECT_TRUE(is_given(now, "batch_size"));  // so no default adapts again
  }
}

TEST(ResumedRun, MayBeChanged) {
  const TempFolder run;
  write_run(run, kRun);
  const Variable home("HOME", run.path().c_str());
  const RunConfig now = resumed("~/step-40", {"n_epochs=3", "loss=dpo", "loss.beta=0.1"});
  EXPECT_EQ(now.n_epochs, 3);
  EXPECT_EQ(now.loss.beta, 0.1);
  EXPECT_EQ(now.batch_size, 32);
  EXPECT_TRUE(compose({{"model=pythia28", "resume=" + run.path().string()}, {}, {}}).notes.empty());
}

TEST(ResumedRun, KeepsItsFolderUnlessThatWasMoved) {
  TempFolder run;
  Words words = kRun;
  words.push_back("local_run_dir=" + run.path().string());
  run.write("config.yaml", to_yaml(compose({words, {}, {}})));
  EXPECT_EQ(resumed(run.path().string()).local_run_dir, run.path());
  TempFolder moved;
  fs::copy_file(run.path() / "config.yaml", moved.path() / "config.yaml");
  EXPECT_FALSE(resumed(moved.path().string()).local_run_dir);
}

TEST(ResumedRun, DoesNotReadTheEnvironment) {
  const Variable secret("DPO_TEST_SECRET", "secret");
  const TempFolder run;
  run.write("config.yaml",
            "loss: {name: sft}\nmodel: {name_or_path: m}\nexp_name: ${oc.env:DPO_TEST_SECRET}\n"
            "data: {tools: \"a\\\\${b}\"}\n");
  const RunConfig now = resumed(run.path().string());
  EXPECT_EQ(now.exp_name, "${oc.env:DPO_TEST_SECRET}");
  EXPECT_EQ(now.data.tools, "a${b}");
}

TEST(ResumedRun, MustExist) {
  const TempFolder empty;
  const auto problems = [](const std::string& resume) { return problems_of({{"resume=" + resume}, {}, {}}); };
  EXPECT_EQ(problems((empty.path() / "none").string()).find("resume="), 0u);
  const std::string required = "model.name_or_path: required";
  EXPECT_NE(problems(empty.path().string()).find("there is no config.yaml in it"), std::string::npos);
  EXPECT_NE(problems("auto").find(required), std::string::npos);
}

}  // namespace
}  // namespace dpo::config
