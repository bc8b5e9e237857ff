#include "serve/child.h"

#include <signal.h>

#include <gtest/gtest.h>

#include "fuzz/temp_folder.h"

namespace dpo::serve {
namespace {

using namespace std::chrono_literals;

std::string all_of(Child& child) {
  std::string text;
  while (!child.has_ended()) text += child.read(100ms);
  return text;
}

TEST(Children, OutputIsReadInWholeCharacters) {
  const fuzz::TempFolder folder;
  const std::string file = folder.path() / "go";
  Child child("/bin/sh", {"-c", "printf 'a\\303'; until [ -e " + file +
                                    " ]; do sleep 0.01; done; printf '\\251b\\377'"});
  std::string text;
  while (text.empty()) text = child.read(100ms);
  EXPECT_EQ(text, "a");  // the first half of a character waits for the second
  folder.write("go", "");
  while (!child.has_ended()) {
    const std::string piece = child.read(100ms);
    EXPECT_TRUE(piece.empty() || piece.front() != '\251') << piece;
    text += piece;
  }
  EXPECT_EQ(text, "aéb\uFFFD");
  EXPECT_EQ(child.failure(), "");
}

TEST(Children, AFailureHasTheLastLinesOfStderr) {
  Child child("/bin/sh", {"-c", "echo to stdout; echo 'error: no model' >&2; exit 1"});
  EXPECT_EQ(all_of(child), "to stdout\n");
  EXPECT_EQ(child.failure(), "error: no model\n");
  Child killed("/bin/sh", {"-c", "kill -9 $$"});
  EXPECT_EQ(all_of(killed), "");
  EXPECT_EQ(killed.failure(), "the process was killed");
  Child absent("/nowhere/dpo", {});
  EXPECT_EQ(all_of(absent), "");
  EXPECT_NE(absent.failure(), "");
}

TEST(Children, EndWithTheirObject) {
  pid_t process = 0;
  {
    Child child("/bin/sh", {"-c", "echo $$; exec sleep 1000"});
    std::string text;
    while (text.empty()) text = child.read(100ms);
    process = std::stoi(text);
    EXPECT_EQ(::kill(process, 0), 0);
  }
  EXPECT_NE(::kill(process, 0), 0);
}

TEST(Children, ReadWhatTheyAreGivenOnStdin) {
  const std::string text = "a prompt\n" + std::string(300'000, 'x');  // more than fits into a pipe
  Child child("/bin/cat", {}, text);
  EXPECT_EQ(all_of(child), text);
  Child none("/bin/cat", {});
  EXPECT_EQ(all_of(none), "");
}

TEST(Children, AnArgumentIsNeverRunByAShell) {
  Child child("/bin/echo", {"$(id); `id`", "--x", "a\nb"});
  EXPECT_EQ(all_of(child), "$(id); `id` --x a\nb\n");
}

}  // namespace
}  // namespace dpo::serve
