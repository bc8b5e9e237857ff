#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/assets.h"
#include "plan/lengths.h"
#include "plan/machine.h"

namespace dpo::plan {
namespace {

class YamlFiles : public testing::Test {
 protected:
  YamlFiles() : folder_(std::filesystem::path(testing::TempDir()) / "dpo_facts_test") {
    std::filesystem::create_directories(folder_);
  }
  ~YamlFiles() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) const {
    const auto path = folder_ / "mine.yaml";
    std::ofstream(path) << text;
    return path.string();
  }

  template <class Load>
  static std::string message_of(Load load) {
    try {
      load();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
};

constexpr const char* kDevice =
    "memory_gib: 80\nmemory_gbytes_per_second: 2000\nbf16_tflops: 300\nfp32_tflops: 20\nefficiency: 0.5\n"
    "link_gbytes_per_second: 200\nnetwork_gbytes_per_second: 25\nwatts: 400\nusd_per_hour: 2\n";

TEST_F(YamlFiles, EveryShippedDeviceLoads) {
  const auto names = config::assets_in("device");
  EXPECT_EQ(names, (std::vector<std::string>{"a100-40gb", "a100-80gb", "b200", "cpu", "h100", "h200", "l40s",
                                             "rtx4090"}));
  for (const std::string& name : names) {
    const Device device = load_device(name);
    EXPECT_TRUE(device.is_cpu || device.bf16_flops > device.fp32_flops) << name;
    EXPECT_GT(device.memory, 1e9) << name;
    EXPECT_EQ(device.is_cpu, name == "cpu");
  }
}

TEST_F(YamlFiles, NamesThatBeginWithWhatWasTypedAreSuggested) {
  const auto problem = [](const std::string& name) { return message_of([&] { load_device(name); }); };
  EXPECT_NE(problem("A100").find("; did you mean 'a100-40gb' or 'a100-80gb'?"), std::string::npos);
  EXPECT_NE(problem("rxt4090").find("; did you mean 'rtx4090'?"), std::string::npos);
  EXPECT_EQ(problem("rtx4080").find("did you mean"), std::string::npos);  // a different GPU
  EXPECT_EQ(problem("zzzzzz").find("did you mean"), std::string::npos);
}

TEST_F(YamlFiles, ADeviceOfOnesOwnLoads) { EXPECT_EQ(load_device(file(kDevice)).bf16_flops, 300e12); }

TEST_F(YamlFiles, WhatIsWrongIsShownOnOneLine) {
  std::string value = kDevice;
  value.replace(value.find("watts: 400"), 10, "watts: \"a\\nb\"");
  for (const std::string& text : {value, kDevice + std::string("\"wa\\nts\": 5\n")}) {
    const std::string message = message_of([&] { load_device(file(text)); });
    EXPECT_NE(message.find("\\x0a"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST_F(YamlFiles, BadDevicesAreNamed) {
  struct Case {
    std::string text, expected;
  };
  const std::string good = kDevice;
  const Case cases[] = {
      {"", "'memory_gbytes_per_second' is missing"},
      {"a: [", ":1:"},
      {"- 1", "expected a map (KEY: VALUE lines)"},
      {"memory_gib: 80", "'memory_gbytes_per_second' is missing"},
      {good + "wats: 3", "unknown key 'wats'; did you mean 'watts'?"},
      {good + "matches: yes", "'matches' is true, expected a list"},
      {good + "matches: [[1]]", "'matches' contains [1], expected text"},
      {good + "efficiency_fp32: 1.5", "'efficiency_fp32' is more than 1"},
      {good + "per_core: maybe", "'per_core' is 'maybe', expected true or false"},
      {"memory_gib: -1", "'memory_gib' is -1, expected a number from 0.01 to"},
      {"memory_gib: lots", "'memory_gib' is 'lots'"},
      {"memory_gib: .inf", "'memory_gib' is inf"},
      {"memory_gib: 1e300", "expected a number from 0.01 to 1000000000000000"},
      {"memory_gib: [1]", "'memory_gib' is [1]"},
  };
  for (const Case& c : cases) {
    const std::string path = file(c.text);
    const std::string message = message_of([&] { load_device(path); });
    EXPECT_TRUE(message.starts_with(path + ":")) << message;
    EXPECT_NE(message.find(c.expected), std::string::npos) << message;
  }
  EXPECT_NE(message_of([] { load_device("h20"); }).find("did you mean 'h200'?"), std::string::npos);
  EXPECT_NE(message_of([] { load_device("no/such.yaml"); }).find("cannot read no/such.yaml"),
            std::string::npos);
}

TEST_F(YamlFiles, BadLengthsAreNamed) {
  const std::string counts =
      "train: {prompts: 1, pairs: 1}\ntest: {prompts: 1, pairs: 1}\nlongest: {prompt: 9, response: 9}\n";
  const auto message = [&](const std::string& rest) {
    return message_of([&] { load_lengths(file(counts + rest)); });
  };
  EXPECT_EQ(message("prompt: [1, 2]\nresponse: [3]\n"), "accepted");
  EXPECT_NE(message("prompt: [2, 1]\nresponse: [3]\n").find("ascending order"), std::string::npos);
  EXPECT_NE(message("prompt: []\nresponse: [3]\n").find("'prompt' must list 1 to 100 means"),
            std::string::npos);
  EXPECT_NE(message("prompt: [1]\nresponse: [99]\n").find("'longest.response' is less than"),
            std::string::npos);
  EXPECT_NE(message("prompt: [x]\nresponse: [3]\n").find("'prompt' contains 'x'"), std::string::npos);
  EXPECT_NE(message("prompt: [1]\nresponse: [3]\nother: 1\n").find("unknown key 'other'"), std::string::npos);
}

config::RunConfig trained_by(config::Trainer trainer) {
  config::RunConfig run;
  run.trainer = trainer;
  return run;
}

TEST_F(YamlFiles, AProcessorMayHaveItsCoresGiven) {
  const std::string core = std::string(kDevice) + "per_core: true\n";
  EXPECT_EQ(load_device(file(core + "cores: 3")).fp32_flops, 60e12);
  EXPECT_NE(message_of([&] { load_device(file(std::string(kDevice) + "cores: 3")); }).find("per_core: true"),
            std::string::npos);
}

TEST(MachineOfRanks, DividesWhatRanksShare) {
  Machine machine = find_machine({.device = "cpu"});
  machine.launched = Launched{.ranks = 6, .on_machine = 4};
  const Machine seen = machine_of_ranks(machine, trained_by(config::Trainer::Fsdp));
  EXPECT_EQ(seen.ranks(), 6);
  EXPECT_EQ(seen.gpus, 4);
  EXPECT_EQ(seen.nodes, 2);
  EXPECT_EQ(seen.device.memory, machine.device.memory / 4);
  EXPECT_EQ(seen.device.fp32_flops, machine.device.fp32_flops / 4);
  EXPECT_EQ(seen.device.network, machine.device.network / 4);
  EXPECT_EQ(seen.device.link, machine.device.link);  // between ranks
  // Two ranks on a GPU share it; one each do not.
  Machine gpus = find_machine({.gpus = 2, .device = "h100"});
  gpus.launched = Launched{.ranks = 4, .on_machine = 4};
  const Device half = machine_of_ranks(gpus, trained_by(config::Trainer::Fsdp)).device;
  EXPECT_EQ(half.memory, gpus.device.memory / 2);
  EXPECT_EQ(half.link, gpus.device.link / 2);
  EXPECT_EQ(half.network, gpus.device.network / 2);
  EXPECT_EQ(half.host_link, gpus.device.host_link / 2);
  gpus.launched = Launched{.ranks = 2, .on_machine = 2};
  EXPECT_EQ(machine_of_ranks(gpus, trained_by(config::Trainer::Fsdp)).device.memory, gpus.device.memory);
}

TEST(MachineOfRanks, WithoutALauncherARankForEachGpu) {
  const Machine machine = find_machine({.gpus = 4, .nodes = 2, .device = "h100"});
  EXPECT_EQ(machine_of_ranks(machine, trained_by(config::Trainer::Fsdp)).ranks(), 8);
  EXPECT_EQ(machine_of_ranks(machine, trained_by(config::Trainer::Fsdp)).device.memory,
            machine.device.memory);
  config::RunConfig meshed = trained_by(config::Trainer::Fsdp);
  meshed.mesh.shard = 2;
  const Machine cpu = find_machine({.device = "cpu"});
  EXPECT_EQ(machine_of_ranks(cpu, meshed).ranks(), 2);
  EXPECT_EQ(machine_of_ranks(cpu, meshed).device.memory, cpu.device.memory / 2);
  EXPECT_EQ(machine_of_ranks(cpu, trained_by(config::Trainer::Basic)).device.memory, cpu.device.memory);
}

TEST(FindMachine, KnowsTheRanksOfALauncher) {
  EXPECT_FALSE(find_machine({.device = "cpu"}).launched);
  EXPECT_EQ(find_machine({.device = "cpu", .ranks = 4}).launched->on_machine, 4);
  const Machine two = find_machine({.device = "cpu", .ranks = 4, .ranks_here = 2});
  EXPECT_EQ(two.ranks(), 4);
  EXPECT_EQ(two.launched->on_machine, 2);
}

TEST(FindMachine, TakesWhatIsAskedFor) {
  const Machine machine = find_machine({.gpus = 4, .nodes = 2, .device = "h100"});
  EXPECT_EQ(machine.ranks(), 8);
  EXPECT_EQ(machine.bus(1), machine.device.link);
  EXPECT_EQ(machine.bus(4), machine.device.link);
  EXPECT_EQ(machine.bus(3), machine.device.network);      // the second group of three is on both machines
  EXPECT_EQ(machine.bus(8), 4 * machine.device.network);  // the ring uses the adapters of four GPUs
  EXPECT_EQ(machine.bus(8, 4), machine.device.network);   // one rank of each machine
  const Machine fast = find_machine({.gpus = 8, .nodes = 2, .device = "h100"});
  EXPECT_EQ(fast.bus(16), fast.device.link);  // eight adapters are faster than the link
  EXPECT_TRUE(fast.is_within_machine(8));
  EXPECT_FALSE(fast.is_within_machine(16));
  EXPECT_FALSE(machine.here);
  EXPECT_THROW(find_machine({.gpus = 0}), UserError);
  EXPECT_THROW(find_machine({.gpus = 4, .nodes = -1}), UserError);
}

}  // namespace
}  // namespace dpo::plan
