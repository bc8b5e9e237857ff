// Names the activations, for the CPU and CUDA alike.
#pragma once

namespace dpo::ops {

enum class Activation { gelu, gelu_tanh, relu, silu };

}  // namespace dpo::ops
