#pragma once

#include <cstdint>

#include "plan/inputs.h"

namespace dpo::plan {

// Seconds of one microbatch on one GPU.
struct MicrobatchTime {
  double compute = 0;        // policy forward and backward, reference forward, extra scoring of some losses
  double communication = 0;  // all of it, hidden under compute or not
  double elapsed = 0;        // with both overlapped as far as possible
  double product_flops = 0;  // of matrix products, and of attention, in `compute`
  double attention_flops = 0;
  double fp8_flops = 0;  // of the products, those in 8 bits

  MicrobatchTime operator+(const MicrobatchTime& other) const {
    return {compute + other.compute,
            communication + other.communication,
            elapsed + other.elapsed,
            product_flops + other.product_flops,
            attention_flops + other.attention_flops,
            fp8_flops + other.fp8_flops};
  }
};

// The passes over the blocks of a microbatch: forward and backward of the policy; of the reference; and extra
// scoring without gradients, by KTO, which scores every prompt with the responses of another example, and by
// losses that compare examples, which score the whole batch before its gradients.
MicrobatchTime training_pass(const Workload& w);
MicrobatchTime policy_pass(const Workload& w);  // forward only
MicrobatchTime reference_pass(const Workload& w);
MicrobatchTime scoring_pass(const Workload& w);

// FLOP/s that training reaches.
double flops_per_second(const Workload& w);

// Floating-point operations of one block's forward pass over the microbatch.
double forward_flops(const Workload& w, const model::Block& block);

// Share of the bytes that a ring exchange sends over its links, and the links of shard ranks.
double ring_share(std::int64_t ranks);
double shard_bus(const Workload& w);

double parameters_of_tensor_rank(const Workload& w, const model::Block& block);

// Matrices in few bits are read, and written in the dtype that they are computed in, once in each direction.
double expanding_seconds(const Workload& w, const model::Block& block);

// Bytes that shard ranks gather of a block: its values, `each` bytes for one, or what is kept in few bits.
double bytes_to_gather(const Workload& w, const model::Block& block, double each);

}  // namespace dpo::plan
