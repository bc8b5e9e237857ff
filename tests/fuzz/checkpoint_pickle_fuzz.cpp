// One input is a pickle or, where it begins with "PK", an archive as torch.save writes it. Only a UserError
// may escape, what is allocated is bounded by the file's size, and every tensor that is accepted lies in the
// file.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "allocations.h"
#include "base/error.h"
#include "checkpoint/formats/torch_archive.h"
#include "checkpoint/formats/zip.h"
#include "memory_file.h"
#include "weights_fuzz.h"

namespace {

using namespace dpo::checkpoint;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "checkpoint_pickle_fuzz: %s\n", what);
  std::abort();
}

void read_archive(std::string_view input) {
  const fuzz::MemoryFile file(input);
  const TorchArchive archive(file.path());
  for (const PickledTensor& tensor : archive.tensors()) {
    const std::uint64_t offset = archive.offset_of(tensor), size = archive.bytes_of(tensor).size();
    if (offset > input.size() || size > input.size() - offset) fail("a tensor outside of the file");
  }
}

}  // namespace

bool try_weights_input(std::string_view input) {
  // An opcode of one byte can make a value of the stack, and refer to a name that it is copied from.
  constexpr std::size_t kPerByte = 256;
  const fuzz::AllocationCount count;
  bool accepted = false;
  try {
    if (input.starts_with("PK"))
      read_archive(input);
    else
      read_state_dict(std::as_bytes(std::span(input)), "input");
    accepted = true;
  } catch (const dpo::UserError& error) {
    if (std::string_view(error.what()).find(": ") == std::string_view::npos)
      fail("a message without its file");
  }
  fuzz::check_allocations(count, input.size(), kPerByte);
  return accepted;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try_weights_input({reinterpret_cast<const char*>(data), size});
  return 0;
}
