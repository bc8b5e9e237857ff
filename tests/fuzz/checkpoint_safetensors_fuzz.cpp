// One input is a safetensors file. Only a UserError may escape, what is allocated is bounded by the file's
// size, and what is accepted lies in the file without holes, each tensor as large as its shape says.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "allocations.h"
#include "base/error.h"
#include "checkpoint/formats/safetensors.h"
#include "weights_fuzz.h"

namespace {

using namespace dpo::checkpoint;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "checkpoint_safetensors_fuzz: %s\n", what);
  std::abort();
}

void check_layout(const Header& header, std::size_t file_size) {
  std::uint64_t end = 0;
  for (const Entry& entry : header.entries) {
    auto bytes = static_cast<long double>(size_of(entry.dtype));  // does not wrap
    for (const std::int64_t size : entry.shape) {
      if (size < 0) fail("a negative size");
      bytes *= static_cast<long double>(size);
    }
    if (entry.begin != end || bytes != static_cast<long double>(entry.end - entry.begin))
      fail("a tensor of the wrong size or place");
    end = entry.end;
  }
  if (header.data_start + end != file_size) fail("tensors that do not fill the file");
}

}  // namespace

bool try_weights_input(std::string_view input) {
  constexpr std::size_t kPerByte = 32;
  const fuzz::AllocationCount count;
  bool accepted = false;
  try {
    const Header header = parse_safetensors(std::as_bytes(std::span(input)), "input");
    check_layout(header, input.size());
    accepted = true;
  } catch (const dpo::UserError& error) {
    if (!std::string_view(error.what()).starts_with("input: ")) fail("a message without its file");
  }
  fuzz::check_allocations(count, input.size(), kPerByte);
  return accepted;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try_weights_input({reinterpret_cast<const char*>(data), size});
  return 0;
}
