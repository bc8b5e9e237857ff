#include "ops/devices.h"

#include <mutex>
#include <set>
#include <thread>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(Devices, TensorLibraryIsTheOneThatIsLoaded) {
  const TensorLibrary library = describe_tensor_library();
  EXPECT_TRUE(std::filesystem::exists(library.folder / "lib" / "libtorch_cpu.so")) << library.folder;
  EXPECT_EQ(library.version.find("2."), 0u) << library.version;
  EXPECT_FALSE(library.cpu_instructions.empty());
  EXPECT_GE(library.threads, 1);
}

// at::parallel_for is compiled into this project. Without OpenMP it would be a loop on one thread.
TEST(Devices, LoopsAreDividedAmongTheThreadsOfLibTorch) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  at::parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  at::set_num_threads(before);
  EXPECT_EQ(threads.size(), 2u);
}

TEST(Devices, GpusNeedTheCudaPart) {
  for (const Gpu& gpu : list_gpus()) {
    EXPECT_TRUE(has_cuda_part());
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_GT(gpu.memory_bytes, 1u << 30);
  }
}

}  // namespace
}  // namespace dpo
