// Runs one target under libFuzzer, if the compiler is clang. DPO_FUZZ_TARGET in the environment names it.
#include <cstdint>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Target kTarget = [] {
    const char* name = std::getenv("DPO_FUZZ_TARGET");
    for (const fuzz::Target& target : fuzz::targets())
      if (name && target.name == std::string_view(name)) return target;
    fuzz::fail("DPO_FUZZ_TARGET names no target");
  }();
  kTarget.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
