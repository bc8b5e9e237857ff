// One input is the text of a config.json. Only a UserError may escape, what is allocated is bounded by the
// file's size, and what is accepted has sizes that can be multiplied.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "allocations.h"
#include "base/error.h"
#include "model/tables/settings.h"
#include "weights_fuzz.h"

namespace {

using dpo::model::ModelConfig;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "model_config_fuzz: %s\n", what);
  std::abort();
}

void check_config(const ModelConfig& config) {
  const auto& shape = config.shape;
  for (const std::int64_t size : {shape.layers, shape.hidden, shape.ffn, shape.heads, shape.kv_heads,
                                  shape.head_dim, shape.vocabulary, shape.context})
    if (size < 1 || size > std::int64_t{1} << 26) fail("a size that cannot be");
  if (shape.heads % shape.kv_heads != 0) fail("heads that cannot be shared");
  const auto& rotary = config.settings.rotary;
  if (rotary.dim < 0 || rotary.dim > shape.head_dim || rotary.dim % 2 != 0) fail("turned dimensions");
  if (!std::isfinite(config.settings.norm_epsilon) || !std::isfinite(config.settings.initializer_range))
    fail("a number that is none");
}

}  // namespace

bool try_weights_input(std::string_view input) {
  constexpr std::size_t kPerByte = 64;
  const fuzz::AllocationCount count;
  bool accepted = false;
  try {
    check_config(dpo::model::parse_model_config(input, "input"));
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
