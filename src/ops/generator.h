#pragma once

#include <cstdint>

#include <ATen/Context.h>

namespace dpo::ops {

// Returns a new random generator of a device, independent of the default one.
inline at::Generator seeded_generator(at::Device device, std::uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

}  // namespace dpo::ops
