#include "hardware/gpus.h"

#include <dlfcn.h>

#include <cstdlib>

#include <gtest/gtest.h>

namespace dpo::hardware {
namespace {

constexpr const char* kRtx3090 = "NVIDIA GeForce RTX 3090|8|6|82|1695000|9751000|384|24268;";
constexpr const char* kV100 = "Tesla V100-SXM2-16GB|7|0|80|1530000|877000|4096|16160;";

// Queries the fake driver, which answers from the environment.
class Driver : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_NE(::dlopen(FAKE_DRIVER, RTLD_NOW), nullptr) << ::dlerror(); }
  ~Driver() override {
    for (const char* variable : {"FAKE_GPUS", "FAKE_CUDA_ERROR", "FAKE_CUDA_VERSION"}) ::unsetenv(variable);
  }

  static Gpus ask(const std::string& gpus, std::optional<int> cuda_of_build) {
    ::setenv("FAKE_GPUS", gpus.c_str(), 1);
    return ask_driver(cuda_of_build);
  }
};

TEST_F(Driver, TellsWhatAGpuIs) {
  const Gpus gpus = ask(std::string(kRtx3090) + "NVIDIA H200|9|0|132|1980000|3201000|6144|143771;", 13);
  EXPECT_EQ(gpus.obstacle, "");
  ASSERT_EQ(gpus.found.size(), 2u);
  ASSERT_EQ(gpus.usable().size(), 2u);
  const Gpu& gpu = gpus.found[0];
  EXPECT_EQ(gpu.name, "NVIDIA GeForce RTX 3090");
  EXPECT_EQ(gpu.compute_capability(), "8.6");
  EXPECT_EQ(gpu.memory_bytes, 24268ull << 20);
  EXPECT_EQ(gpu.multiprocessors, 82);
  EXPECT_EQ(gpu.clock, 1695e6);
  EXPECT_EQ(gpu.memory_clock, 9751e6);
  EXPECT_EQ(gpu.bus_bits, 384);
  EXPECT_FALSE(gpu.nvlink);
  EXPECT_EQ(gpus.found[1].name, "NVIDIA H200");
}

TEST_F(Driver, WithoutGpusThereIsNothingToSay) {
  const Gpus gpus = ask("", 0);
  EXPECT_TRUE(gpus.found.empty());
  EXPECT_EQ(gpus.obstacle, "");
}

TEST_F(Driver, ABuildThatCannotUseThemSaysWhatToDo) {
  const Gpus without = ask(kRtx3090, 0);
  EXPECT_EQ(without.found.size(), 1u);
  EXPECT_TRUE(without.usable().empty());
  EXPECT_NE(without.obstacle.find("built without CUDA; run ./run build"), std::string::npos);

  ::setenv("FAKE_CUDA_VERSION", "12020", 1);
  const Gpus old = ask(kRtx3090, 13);
  EXPECT_TRUE(old.usable().empty());
  EXPECT_NE(old.obstacle.find("built with CUDA 13, and the GPU driver supports at most CUDA 12.2"),
            std::string::npos)
      << old.obstacle;
  EXPECT_EQ(ask(kRtx3090, 12).usable().size(), 1u);
  EXPECT_EQ(ask(kRtx3090, std::nullopt).usable().size(), 1u);
}

TEST_F(Driver, AGpuThatCudaHasLeftBehindIsNamed) {
  const Gpus gpus = ask(kV100, 13);
  EXPECT_TRUE(gpus.usable().empty());
  EXPECT_NE(gpus.obstacle.find("compute capability 7.0 (Tesla V100-SXM2-16GB)"), std::string::npos)
      << gpus.obstacle;
  EXPECT_EQ(ask(kV100, 12).usable().size(), 1u);
}

TEST_F(Driver, OneThatDoesNotStartIsAnObstacle) {
  ::setenv("FAKE_CUDA_ERROR", "803", 1);
  const Gpus gpus = ask(kRtx3090, 13);
  EXPECT_TRUE(gpus.found.empty());
  EXPECT_NE(gpus.obstacle.find("does not start (CUDA error 803)"), std::string::npos) << gpus.obstacle;
}

}  // namespace
}  // namespace dpo::hardware
