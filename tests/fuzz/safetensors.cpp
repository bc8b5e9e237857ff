// One input is a safetensors file. Only a UserError may escape, and allocations are bounded by the file's
// size. Accepted tensors fill the file without holes, and each is as large as its shape requires.
#include <span>
#include <string>

#include "allocations.h"
#include "base/error.h"
#include "checkpoint/formats/safetensors.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::safetensors {
namespace {

using namespace dpo::checkpoint;

void check_layout(const Header& header, std::size_t file_size) {
  std::uint64_t end = 0;
  for (const Entry& entry : header.entries) {
    auto bytes = static_cast<long double>(size_of(entry.dtype));  // long double does not wrap around
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

bool try_input(std::string_view input) {
  // A parser's message quotes the last token, with 8 bytes for a control character, and is copied.
  constexpr std::size_t kPerByte = 64;
  const AllocationCount count;
  bool accepted = false;
  try {
    const Header header = parse_safetensors(std::as_bytes(std::span(input)), "input");
    check_layout(header, input.size());
    accepted = true;
  } catch (const dpo::UserError& error) {
    if (!std::string_view(error.what()).starts_with("input: ")) fail("a message without its file");
  }
  check_allocations(count, input.size(), kPerByte);
  return accepted;
}

struct Seed {
  std::string header;
  std::size_t data = 0;
};

const Seed kSeeds[] = {
    {"{}", 0},
    {R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}   )", 24},
    {R"({"b":{"dtype":"BF16","shape":[4],"data_offsets":[8,16]},"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})",
     16},
    {R"({"x":{"dtype":"F16","shape":[0,5],"data_offsets":[0,0]},"y":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
     3},
    {R"({"w":{"data_offsets":[0,16],"dtype":"F64","shape":[1,2]},"v":{"dtype":"BOOL","data_offsets":[16,17],"shape":[1]}})",
     17},
};

const Tokens kTokens =
    json_tokens({"1", "8", "-", "1e9", "2.0", "4611686018427387904", "\"F32\"", "\"F64\"", "\"F4\"", "\"a\"",
                 "\"dtype\"", "\"shape\"", "\"data_offsets\"", "\"__metadata__\"", "[0,8]", "[8,0]", "[0,0]",
                 R"("c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"});

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i));
  return file + rest;
}

std::string make(Mutator& mutator) {
  const Seed& seed = mutator.pick(kSeeds);
  std::string header = seed.header;
  if (mutator.below(2) == 0)
    for (std::size_t rounds = 1 + mutator.below(3); rounds > 0; --rounds) mutator.change_number(header);
  else
    mutator.mutate(header, kTokens, 5);
  std::size_t data = seed.data;
  if (mutator.below(8) == 0) data = mutator.below(40);
  std::uint64_t length = header.size();
  switch (mutator.below(16)) {
    case 0: length = std::uint64_t{1} << mutator.below(64); break;
    case 1: length = UINT64_MAX - mutator.below(20); break;
    case 2: length += mutator.below(40); break;
    case 3: length -= std::min<std::uint64_t>(length, mutator.below(5)); break;
  }
  std::string file = with_length(length, header + std::string(data, 'd'));
  if (mutator.below(50) == 0) file.resize(mutator.below(file.size() + 1));
  return file;
}

const Registered kTarget({"safetensors", make, try_input});

}  // namespace
}  // namespace fuzz::safetensors
