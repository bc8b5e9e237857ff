#include "ops/devices.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <malloc.h>
#include <sys/resource.h>
#include <torch/version.h>

#include <cstdlib>
#include <limits>

#include <fmt/format.h>

namespace dpo {
namespace {

std::filesystem::path folder_of_loaded_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&at::get_num_threads), &info) == 0) return {};
  return std::filesystem::canonical(info.dli_fname).parent_path().parent_path();
}

// Looks up NCCL's symbol, because NCCL is loaded with LibTorch and its header need not be installed.
std::optional<std::string> nccl_version() {
  using GetVersion = int (*)(int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int code = 0;
  if (get_version == nullptr || get_version(&code) != 0) return std::nullopt;
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace

std::vector<Gpu> list_gpus() { return hardware::find_gpus().usable(); }

TensorLibrary describe_tensor_library() {
  TensorLibrary library;
  library.version = TORCH_VERSION;
  library.folder = folder_of_loaded_library();
  library.cpu_instructions = at::get_cpu_capability();
  library.threads = at::get_num_threads();
  library.cuda_part = has_cuda_part();
  library.nccl_version = nccl_version();
  return library;
}

void keep_freed_memory() {
#ifdef __GLIBC__
  for (const char* name : {"MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"})
    if (std::getenv(name) != nullptr) return;  // set by the user
  ::mallopt(M_MMAP_MAX, 0);                    // otherwise large blocks are mapped, and unmapped when freed
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

std::uint64_t peak_memory(bool on_gpu) {
  if (on_gpu) return peak_gpu_memory();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace dpo
