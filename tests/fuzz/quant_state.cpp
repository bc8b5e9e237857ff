// One input is the description that bitsandbytes writes beside a quantized matrix. Only a UserError may
// escape, allocations are bounded by the input's size, and an accepted shape can be multiplied without
// overflow.
#include "checkpoint/formats/quant_state.h"

#include "allocations.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::quant_state {
namespace {

bool try_input(std::string_view input) {
  constexpr std::size_t kPerByte = 128;  // a JSON node for each "[" or "1,"
  dpo::checkpoint::QuantState state;
  const AllocationCount count;
  const bool accepted = accepts([&] { state = dpo::checkpoint::parse_quant_state(input, "input"); });
  check_allocations(count, input.size(), kPerByte);
  if (!accepted) return false;
  std::int64_t product = 0;
  if (state.shape.size() != 2 || state.shape[0] < 1 || state.shape[1] < 1 ||
      __builtin_mul_overflow(state.shape[0], state.shape[1], &product))
    fail("a shape that is not that of a matrix");
  return true;
}

const std::string kSeeds[] = {
    R"({"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [32, 64]})",
    R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [4096, 1024],
        "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.043})",
};

const Tokens kTokens =
    json_tokens({"1e99", "1073741824", "999999999", "64", "256", "nf4", "fp4", "\"shape\":[1,1],"});

std::string make(Mutator& mutator) {
  std::string text = mutator.pick(kSeeds);
  mutator.mutate(text, kTokens, 4);
  return text;
}

const Registered kTarget({"quant_state", make, try_input});

}  // namespace
}  // namespace fuzz::quant_state
