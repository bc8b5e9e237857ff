// One input is the index of a model in several files. Only a UserError may escape, what is allocated is
// bounded by the file's size, and no file that is accepted leaves the folder.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "allocations.h"
#include "base/error.h"
#include "checkpoint/formats/index.h"
#include "weights_fuzz.h"

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "checkpoint_index_fuzz: %s\n", what);
  std::abort();
}

}  // namespace

bool try_weights_input(std::string_view input) {
  constexpr std::size_t kPerByte = 32;
  dpo::checkpoint::WeightMap map;
  bool accepted = false;
  {
    const fuzz::AllocationCount count;
    try {
      map = dpo::checkpoint::parse_weight_index(input, "input");
      accepted = true;
    } catch (const dpo::UserError& error) {
      if (!std::string_view(error.what()).starts_with("input: ")) fail("a message without its file");
    }
    fuzz::check_allocations(count, input.size(), kPerByte);
  }
  const std::filesystem::path folder = "/models/folder";
  for (const auto& [tensor, file] : map) {
    const std::string place = (folder / file).lexically_normal();
    if (!place.starts_with("/models/folder/") || place.back() == '/') fail("a file outside of the folder");
  }
  return accepted;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try_weights_input({reinterpret_cast<const char*>(data), size});
  return 0;
}
