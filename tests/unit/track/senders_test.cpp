#include "track/senders.h"

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "fuzz/temp_folder.h"

namespace dpo::track {
namespace {

namespace fs = std::filesystem;
using fuzz::TempFolder;
using Texts = std::vector<std::string>;

// Replaces python3 by a shell script, or removes it.
class SendersTest : public testing::Test {
 protected:
  SendersTest() {
    ::setenv("DPO_TRACKER_SECONDS", "1", 1);
    fs::create_directory(folder_.path() / "bin");
  }
  ~SendersTest() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("DPO_TRACKER_SECONDS");
  }

  void use_python(const std::string& script) {
    folder_.write("bin/python3", "#!/bin/sh\n" + script + "\n");
    fs::permissions(folder_.path() / "bin/python3", fs::perms::owner_all);
    ::setenv("PATH", ((folder_.path() / "bin:").string() + path_).c_str(), 1);
  }
  void remove_python() {
    fs::remove(folder_.path() / "bin/python3");
    ::setenv("PATH", (folder_.path() / "bin").c_str(), 1);
  }

  // Returns the notes of a whole run.
  Texts notes_of_run(const Texts& names) {
    Senders senders(folder_.path(), R"({"name": "é"})", names);
    senders.finish();
    return senders.notes();
  }

  std::string run() const { return folder_.path().string(); }

  TempFolder folder_;

 private:
  const std::string path_ = std::getenv("PATH");
};

TEST_F(SendersTest, GiveTheProgramTheRunTheTrackerAndTheConfiguration) {
  use_python("echo \"$@\"; cat");
  EXPECT_EQ(notes_of_run({"wandb"}), Texts{});
  const std::string log = folder_.read("track-wandb.log");
  EXPECT_TRUE(log.starts_with("- " + run() + " wandb 3 1\n")) << log;
  EXPECT_TRUE(log.ends_with("\nmain(\"{\\\"name\\\":\\\"\\\\u00e9\\\"}\")\n")) << log;
}

TEST_F(SendersTest, WithoutThePackageOneNoteSaysHowToSendTheRun) {
  const auto note = [&](const std::string& name) {
    return "package " + name + "; with it, 'dpo track " + run() + " --to " + name + "' sends the run";
  };
  use_python("exit 3");
  const Texts notes = notes_of_run({"wandb", "trackio"});
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find(note("wandb")), std::string::npos) << notes[0];
  EXPECT_TRUE(notes[0].starts_with("note: the run is not sent to Weights & Biases, because")) << notes[0];
  EXPECT_NE(notes[1].find(note("trackio")), std::string::npos) << notes[1];
  remove_python();
  EXPECT_EQ(notes_of_run({"wandb", "trackio"}), notes);
}

TEST_F(SendersTest, AFailureIsToldOnceWithTheLastLineOfItsLog) {
  use_python("echo one; echo 'Error: no login' >&2; exit 1");
  Senders senders(folder_.path(), "{}", {"mlflow"});
  Texts notes;
  while ((notes = senders.notes()).empty()) std::this_thread::yield();
  EXPECT_EQ(notes, Texts{"warning: MLflow: Error: no login (" + run() + "/track-mlflow.log); 'dpo track " +
                         run() + " --to mlflow' sends what is missing"});
  senders.finish();
  EXPECT_EQ(senders.notes(), Texts{});
}

TEST_F(SendersTest, AFailureIsToldInOneShortLine) {
  use_python("exit 1");
  EXPECT_EQ(notes_of_run({"wandb"}),
            Texts{"warning: Weights & Biases: it ended without a message (" + run() +
                  "/track-wandb.log); 'dpo track " + run() + " --to wandb' sends what is missing"});
  use_python("printf '\\033[31m%0600d\\n' 0; exit 1");
  const Texts notes = notes_of_run({"wandb"});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].starts_with("warning: Weights & Biases:  [31m000")) << notes[0];
  EXPECT_NE(notes[0].find("000... ("), std::string::npos) << notes[0];
}

TEST_F(SendersTest, SayOnceWhereTheRunIsShown) {
  use_python("echo '{\"where\": \"https://test\"}' > " + run() + "/track-wandb.json; read end <&3; exit 0");
  Senders senders(folder_.path(), "{}", {"wandb"});
  Texts notes;
  while ((notes = senders.notes()).empty()) std::this_thread::yield();
  EXPECT_EQ(notes, Texts{"note: the run is tracked by Weights & Biases: https://test "
                         "(wandb.enabled=false turns this off)"});
  senders.finish();
  EXPECT_EQ(senders.notes(), Texts{});
}

TEST_F(SendersTest, ATrackerThatHangsDoesNotKeepTheRunFromEnding) {
  use_python("echo $$ > " + run() + "/process; trap '' TERM; while :; do sleep 1; done");
  EXPECT_EQ(notes_of_run({"wandb"}).size(), 1u);
  EXPECT_NE(::kill(std::stoi(folder_.read("process")), 0), 0);
}

TEST_F(SendersTest, AreToldThatTheProcessOfTheRunHasEnded) {
  use_python("read end <&3; echo ended");
  { const Senders senders(folder_.path(), "{}", {"wandb"}); }
  while (!fs::exists(folder_.path() / "track-wandb.log") || folder_.read("track-wandb.log") != "ended\n")
    std::this_thread::yield();
}

TEST_F(SendersTest, ALinkInPlaceOfTheLogIsNotFollowed) {
  folder_.write("other", "of somebody else");
  fs::create_symlink(folder_.path() / "other", folder_.path() / "track-wandb.log");
  use_python("echo more");
  const Texts notes = notes_of_run({"wandb"});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].starts_with("warning: Weights & Biases: ")) << notes[0];
  EXPECT_EQ(folder_.read("other"), "of somebody else");
}

TEST(ShownAt, NamesEachTrackerThatHasTheRun) {
  const TempFolder folder;
  folder.write("track-wandb.json", R"({"id": "a", "sent": 4, "where": "https://wandb.ai/a"})");
  folder.write("track-mlflow.json", "damaged");
  const auto shown = shown_at(folder.path());
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].tracker + " " + shown[0].where, "wandb https://wandb.ai/a");
  forget_sent(folder.path());
  EXPECT_TRUE(shown_at(folder.path()).empty());
}

TEST(MlflowUri, MustNotHaveAPassword) {
  for (const char* uri : {"http://host:5000", "sqlite:////home/a@b/mlflow.db", "databricks", "file:./mlruns"})
    EXPECT_EQ(problem_of_mlflow_uri("mlflow.tracking_uri", uri), "") << uri;
  EXPECT_NE(problem_of_mlflow_uri("mlflow.tracking_uri", "postgresql://me:hid/den@host/db"), "");
  const std::string problem = problem_of_mlflow_uri("mlflow.tracking_uri", "https://me:hidden@host/path");
  EXPECT_TRUE(problem.starts_with("mlflow.tracking_uri: the address contains a user name or password"))
      << problem;
  EXPECT_EQ(problem.find("hidden"), std::string::npos);
}

}  // namespace
}  // namespace dpo::track
