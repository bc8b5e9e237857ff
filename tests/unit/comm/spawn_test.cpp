#include "comm/spawn.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"

namespace dpo::comm {
namespace {

namespace fs = std::filesystem;

Process shell(const std::string& script) { return {{"/bin/sh", "-c", script}}; }

class Start : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return folder_ / name; }
  std::string text(const std::string& name) const {
    std::ifstream in(file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const fs::path folder_ = fs::temp_directory_path() / ("start_test_" + std::to_string(::getpid()));
};

TEST_F(Start, EveryProcessHasItsOwnVariables) {
  std::vector<Process> ranks = local_ranks(
      {"/bin/sh", "-c",
       "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT > " + file("$RANK")},
      3, 1234);
  EXPECT_EQ(start_and_wait(ranks, Forwarding::unchanged), 0);
  EXPECT_EQ(text("0"), "0 0 3 3 127.0.0.1:1234\n");
  EXPECT_EQ(text("2"), "2 2 3 3 127.0.0.1:1234\n");
}

TEST_F(Start, TheFirstFailureIsTheStatus) {
  EXPECT_EQ(start_and_wait({shell("exit 0"), shell("exit 7")}, Forwarding::unchanged), 7);
  EXPECT_EQ(start_and_wait({shell("kill -9 $$"), shell("exit 0")}, Forwarding::unchanged), 2);
  EXPECT_EQ(start_and_wait({shell("exit 137")}, Forwarding::as_usr1), 2);  // from mpirun
  EXPECT_EQ(start_and_wait({shell("exit 143")}, Forwarding::as_usr1), 143);
  EXPECT_EQ(start_and_wait({{{"/no/such/program"}}}, Forwarding::unchanged), 127);
}

TEST_F(Start, AFailureEndsTheOthers) {
  // This process ignores SIGTERM and is stopped.
  const Process stuck =
      shell("echo $$ > " + file("pid") + "; trap '' TERM; kill -STOP $$; while :; do sleep 1; done");
  const Process fails = shell("while [ ! -s " + file("pid") + " ]; do sleep 0.1; done; exit 3");
  EXPECT_EQ(start_and_wait({stuck, fails}, Forwarding::unchanged, std::chrono::milliseconds(200)), 3);
  EXPECT_NE(::kill(std::stoi(text("pid")), 0), 0);
}

// Sends a signal to this process once the files exist.
std::thread signal_when_ready(int signal, std::vector<std::string> files) {
  return std::thread([=] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // so that the waiting thread receives it
    while (!std::all_of(files.begin(), files.end(), [](const auto& name) { return fs::exists(name); }))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(::getpid(), signal);
  });
}

TEST_F(Start, SignalsAreForwarded) {
  for (const auto& [sent, forwarding, expected] : {std::tuple(SIGTERM, Forwarding::unchanged, "TERM\n"),
                                                   std::tuple(SIGUSR1, Forwarding::unchanged, "USR1\n"),
                                                   std::tuple(SIGTERM, Forwarding::as_usr1, "USR1\n")}) {
    const std::string script =
        "for s in TERM USR1; do trap \"echo $s > FILE; exit 143\" $s; done; touch READY; while :; do sleep "
        "0.05; done";
    std::vector<Process> processes;
    std::vector<std::string> ready;
    for (const char* name : {"a", "b"}) {
      fs::remove(file(name));
      ready.push_back(file(std::string(name) + ".ready"));
      fs::remove(ready.back());
      std::string own = script;
      own.replace(own.find("FILE"), 4, file(name));
      own.replace(own.find("READY"), 5, ready.back());
      processes.push_back(shell(own));
    }
    std::thread sender = signal_when_ready(sent, ready);
    EXPECT_EQ(start_and_wait(processes, forwarding), 143);
    sender.join();
    EXPECT_EQ(text("a"), expected);
    EXPECT_EQ(text("b"), expected);
  }
}

// The kernel may give a signal to a thread of a library.
TEST_F(Start, SignalsThatAnotherThreadReceivesAreForwarded) {
  const Process process = shell("trap 'echo TERM > " + file("got") + "; exit 143' TERM; touch " +
                                file("ready") + "; while :; do sleep 0.05; done");
  std::thread other([this] {
    while (!fs::exists(file("ready"))) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::pthread_kill(::pthread_self(), SIGTERM);
  });
  EXPECT_EQ(start_and_wait({process}, Forwarding::unchanged), 143);
  other.join();
  EXPECT_EQ(text("got"), "TERM\n");
}

// These processes have nothing to save, and a launcher of ranks loses signals that come before its ranks
// start.
TEST_F(Start, WithoutHandlersProcessesAreEndedByASignal) {
  const std::string sleeps = "sleep 1000 & echo $! > " + file("pid") + "; touch " + file("ready") + "; wait";
  const Process plain = shell("touch " + file("ready") + "; exec sleep 1000");
  Process launcher = shell("trap 'echo USR1 > " + file("got") + "' USR1; " + sleeps);
  launcher.ranks = 1;
  for (const Process& process : {plain, launcher}) {
    fs::remove(file("ready"));
    std::thread sender = signal_when_ready(SIGTERM, {file("ready")});
    EXPECT_EQ(start_and_wait({process}, Forwarding::as_usr1), 143);
    sender.join();
  }
  EXPECT_FALSE(fs::exists(file("got")));
  ::kill(std::stoi(text("pid")), SIGKILL);
}

TEST_F(Start, WithoutMpirunThereIsAnError) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder_.c_str(), 1);
  try {
    mpirun_ranks({"x"}, 2);
    ADD_FAILURE() << "found";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("mpirun"), std::string::npos);
  }
  std::ofstream(file("mpirun")) << "";
  fs::permissions(file("mpirun"), fs::perms::all);
  const Process process = mpirun_ranks({"program", "argument"}, 3);
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(process.command[0], file("mpirun"));
  EXPECT_EQ(process.command[2], "3");
  EXPECT_EQ(process.command.back(), "argument");
}

}  // namespace
}  // namespace dpo::comm
