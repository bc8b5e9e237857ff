#include "comm/launch.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::comm {
namespace {

const Environment kTorchrun = {{"RANK", "5"},
                               {"LOCAL_RANK", "1"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node0"},
                               {"MASTER_PORT", "29500"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "3"},
                             {"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                             {"PMIX_RANK", "3"}};
const Environment kSrun = {{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"},
                           {"SLURM_NTASKS", "4"},  {"SLURM_PROCID", "2"},  {"SLURM_LOCALID", "0"}};

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

Environment without(Environment base, const std::string& name) {
  base.erase(name);
  return base;
}

std::string problem_of(const Environment& environment) {
  try {
    read_launch(environment);
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

void expect_mentions(const Environment& environment, std::initializer_list<const char*> texts) {
  const std::string problem = problem_of(environment);
  for (const char* text : texts)
    EXPECT_NE(problem.find(text), std::string::npos) << text << " in: " << problem;
}

TEST(Launch, NoLauncher) {
  const Launch launch = read_launch({{"PATH", "/bin"}, {"MASTER_ADDR", "left over"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(launch.launcher, Launcher::none);
  EXPECT_EQ(launch.size, 1);
}

TEST(Launch, Torchrun) {
  const Launch launch = read_launch(kTorchrun);
  EXPECT_EQ(launch.launcher, Launcher::variables);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.address, "node0");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_FALSE(launch.store_is_hosted);
  const Launch agent = read_launch(
      with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_TRUE(agent.store_is_hosted);
  EXPECT_EQ(agent.attempt, 2);
}

TEST(Launch, KubernetesSetsNoLocalRank) {
  const Launch launch = read_launch(without(without(kTorchrun, "LOCAL_RANK"), "LOCAL_WORLD_SIZE"));
  EXPECT_EQ(launch.rank, 5);
  EXPECT_FALSE(launch.local_rank);
  EXPECT_FALSE(launch.local_size);
}

TEST(Launch, OneProcessNeedsNoRendezvous) {
  const Launch launch = read_launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(launch.launcher, Launcher::variables);
  EXPECT_FALSE(launch.address);
}

TEST(Launch, Mpirun) {
  const Launch launch = read_launch(kMpirun);
  EXPECT_EQ(launch.launcher, Launcher::open_mpi);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
}

TEST(Launch, Srun) {
  const Launch launch = read_launch(kSrun);
  EXPECT_EQ(launch.launcher, Launcher::slurm);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 0);
}

TEST(Launch, ASlurmJobIsNotAnSrunTask) {
  const Environment batch = {
      {"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(read_launch(batch).launcher, Launcher::none);
  EXPECT_EQ(read_launch(with(kSrun, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}})).launcher,
            Launcher::none);
}

TEST(Launch, SrunMayStartOtherLaunchers) {
  // srun started a torchrun or orted on each machine.
  EXPECT_EQ(read_launch(with(with(kSrun, kTorchrun), {{"TORCHELASTIC_RUN_ID", "x"}})).launcher,
            Launcher::variables);
  EXPECT_EQ(read_launch(with(kSrun, kMpirun)).launcher, Launcher::open_mpi);
}

TEST(Launch, LaunchersThatAgree) {
  const Environment same = {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  EXPECT_EQ(read_launch(with(kMpirun, same)).launcher, Launcher::open_mpi);
  EXPECT_EQ(read_launch(with(with(kSrun, same), {{"RANK", "2"}})).launcher, Launcher::variables);
}

TEST(Launch, LaunchersThatDisagree) {
  expect_mentions(with(kMpirun, kTorchrun), {"RANK=5", "OMPI_COMM_WORLD_RANK=3"});
  expect_mentions(with(kMpirun, with(kTorchrun, {{"RANK", "3"}})),
                  {"WORLD_SIZE=8", "OMPI_COMM_WORLD_SIZE=4"});
  expect_mentions(with(kMpirun, {{"PMIX_RANK", "1"}}), {"PMIX_RANK=1", "OMPI_COMM_WORLD_RANK=3"});
  expect_mentions(with(kSrun, kTorchrun), {"RANK=5", "SLURM_PROCID=2"});
  expect_mentions(with(kSrun, with(kTorchrun, {{"RANK", "2"}})), {"WORLD_SIZE=8", "SLURM_STEP_NUM_TASKS=4"});
}

TEST(Launch, RanksThatAreTooLarge) {
  expect_mentions(with(kTorchrun, {{"RANK", "8"}}), {"RANK=8", "WORLD_SIZE=8"});
  expect_mentions(with(kTorchrun, {{"LOCAL_RANK", "4"}}), {"LOCAL_RANK=4", "LOCAL_WORLD_SIZE=4"});
  expect_mentions(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "16"}}), {"LOCAL_WORLD_SIZE=16", "WORLD_SIZE=8"});
  expect_mentions(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "4"}}),
                  {"OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_SIZE=4"});
  expect_mentions(with(kSrun, {{"SLURM_PROCID", "4"}}), {"SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=4"});
}

TEST(Launch, HalfOfTheVariables) {
  expect_mentions({{"RANK", "0"}}, {"RANK=0", "WORLD_SIZE is not"});
  expect_mentions({{"WORLD_SIZE", "4"}}, {"WORLD_SIZE=4", "RANK is not"});
  expect_mentions({{"LOCAL_RANK", "0"}}, {"LOCAL_RANK=0", "RANK is not"});
  expect_mentions({{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_SIZE is not"});
  expect_mentions(without(kTorchrun, "MASTER_ADDR"), {"WORLD_SIZE=8", "MASTER_ADDR is not"});
  expect_mentions(without(kTorchrun, "MASTER_PORT"), {"MASTER_PORT is not"});
}

TEST(Launch, NotANumber) {
  for (const char* text : {"x", "1x", "-1", "1.5", " 1", "99999999999"})
    expect_mentions(with(kTorchrun, {{"RANK", text}}), {"RANK", text, "whole number"});
  expect_mentions(with(kTorchrun, {{"WORLD_SIZE", "0"}}), {"WORLD_SIZE", "from 1"});
  expect_mentions(with(kTorchrun, {{"MASTER_PORT", "70000"}}), {"MASTER_PORT", "70000"});
  EXPECT_EQ(read_launch({{"RANK", ""}, {"WORLD_SIZE", ""}}).launcher, Launcher::none);
}

}  // namespace
}  // namespace dpo::comm
