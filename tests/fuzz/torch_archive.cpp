// One input is a pickle or, if it begins with "PK", an archive as torch.save writes it. Only a UserError may
// escape, allocations are bounded by the file's size, and every accepted tensor lies in the file.
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>

#include "allocations.h"
#include "base/error.h"
#include "base/files.h"
#include "checkpoint/formats/torch_archive.h"
#include "checkpoint/formats/zip.h"
#include "memory_file.h"
#include "target.h"

namespace fuzz::torch_archive {
namespace {

using namespace dpo::checkpoint;

void read_archive(std::string_view input) {
  const MemoryFile file(input);
  const TorchArchive archive(file.path());
  for (const PickledTensor& tensor : archive.tensors()) {
    const std::uint64_t offset = archive.offset_of(tensor), size = archive.bytes_of(tensor).size();
    if (offset > input.size() || size > input.size() - offset) fail("a tensor outside of the file");
  }
}

bool try_input(std::string_view input) {
  // An opcode of one byte can create a stack value and copy the name that it refers to.
  constexpr std::size_t kPerByte = 256;
  const AllocationCount count;
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
  check_allocations(count, input.size(), kPerByte);
  return accepted;
}

using namespace std::string_literals;

std::string archive() {
  const auto path = std::filesystem::temp_directory_path() / ("dpo_fuzz_" + std::to_string(getpid()) + ".pt");
  static const std::string kNumbers(24, 'n');
  const auto bytes = [] { return std::as_bytes(std::span(kNumbers)); };
  write_policy(path,
               {{"a.weight", Dtype::F32, {2, 3}, bytes},
                {"b", Dtype::BF16, {12}, bytes},
                {"c", Dtype::F64, {3, 1, 1}, bytes}},
               {{"shared", "a.weight"}});
  std::string file = dpo::read_text_file(path, "seed");
  std::filesystem::remove(path);
  return file;
}

std::string pickle_of(const std::string& file) {
  const auto files = read_stored_zip(std::as_bytes(std::span(file)), "seed");
  for (const auto& [name, bytes] : files)
    if (name.ends_with("data.pkl")) return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  return "";
}

// Opcodes, and numbers in the format of zip records.
const std::string kTokens[] = {"(",
                               ")",
                               "]",
                               "}",
                               "t",
                               "l",
                               "u",
                               "s",
                               "a",
                               "e",
                               "R",
                               "Q",
                               "b",
                               "0",
                               "N",
                               ".",
                               "h\0"s,
                               "h\1",
                               "q\0"s,
                               "q\1",
                               "\x85",
                               "\x86",
                               "\x87",
                               "\x88",
                               "\x93",
                               "\x94",
                               "K\1",
                               "M\xff\xff",
                               "J\xff\xff\xff\xff",
                               "J\xff\xff\xff\x7f",
                               "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
                               "\x8a\1\xff",
                               "X\1\0\0\0a"s,
                               "X\xff\xff\xff\xff",
                               "\x8c\1a",
                               "cos\nsystem\n",
                               "ccollections\nOrderedDict\n)R",
                               "ctorch\nHalfStorage\n",
                               "G\0\0\0\0\0\0\0\0"s,
                               "]q\1",
                               "}q\2",
                               "\x95\0\0\0\0\0\0\0\0"s,
                               "PK\1\2",
                               "PK\3\4",
                               "PK\5\6",
                               "PK\6\6",
                               "PK\6\7",
                               "\0\0\0\0"s,
                               "\xff\xff\xff\xff",
                               "\xff\xff",
                               "\xff\xff\xff\xff\xff\xff\xff\xff",
                               "\1\0\x18\0"s,
                               "\0\0\0\x80"s};

std::string make(Mutator& mutator) {
  static const std::string kArchive = archive(), kPickle = pickle_of(kArchive);
  std::string text = mutator.below(2) == 0 ? kArchive : kPickle;
  mutator.mutate(text, kTokens, 5);
  return text;
}

const Registered kTarget({"torch_archive", make, try_input});

}  // namespace
}  // namespace fuzz::torch_archive
