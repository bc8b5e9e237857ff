#include "ops/devices.h"

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

TEST(Devices, GpusNeedTheCudaPart) {
  for (const Gpu& gpu : list_gpus()) {
    EXPECT_TRUE(has_cuda_part());
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_GT(gpu.memory_bytes, 1u << 30);
  }
}

}  // namespace
}  // namespace dpo
