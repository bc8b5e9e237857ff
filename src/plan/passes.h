#pragma once

#include <cstdint>

#include "plan/inputs.h"

namespace dpo::plan {

// Time of one microbatch on one GPU, in seconds, and its floating-point operations.
struct MicrobatchTime {
  double compute = 0;        // policy forward and backward, reference forward, extra scoring of some losses
  double communication = 0;  // all of it, hidden under compute or not
  double elapsed = 0;        // with both overlapped as far as possible
  double matmul_flops = 0;   // operations of matmuls, and of attention, in `compute`
  double attention_flops = 0;
  double fp8_flops = 0;  // operations of matmuls in FP8, included above

  MicrobatchTime operator+(const MicrobatchTime& other) const {
    return {compute + other.compute,
            communication + other.communication,
            elapsed + other.elapsed,
            matmul_flops + other.matmul_flops,
            attention_flops + other.attention_flops,
            fp8_flops + other.fp8_flops};
  }
};

// Return the time of passes over the blocks of a microbatch: forward and backward of the policy; forward of
// the reference; and extra scoring without gradients. KTO scores every prompt with the responses of another
// example, and losses that compare examples score the whole batch before its gradients.
MicrobatchTime training_pass(const Workload& w);
MicrobatchTime backward_pass(const Workload& w);  // a part of the training pass
MicrobatchTime policy_pass(const Workload& w);    // forward only
MicrobatchTime reference_pass(const Workload& w);
MicrobatchTime scoring_pass(const Workload& w);

// Returns the seconds of computing and communicating at the same time.
double overlapped(double compute, double communication);

// Returns the FLOP/s that training reaches.
double flops_per_second(const Workload& w);

// Returns the floating-point operations of one block's forward pass over the microbatch.
double forward_flops(const Workload& w, const model::Block& block);

// Return the share of the bytes that a ring exchange sends over its links, and the bandwidth between shard
// ranks.
double ring_share(std::int64_t ranks);
double shard_bus(const Workload& w);

double parameters_of_tensor_rank(const Workload& w, const model::Block& block);

// Returns the seconds in which a block's quantized matrices are read, and written in the dtype that they are
// computed in. This happens once in each direction.
double expanding_seconds(const Workload& w, const model::Block& block);

// Returns the bytes that shard ranks gather of a block: `each` bytes per value, or the quantized bytes if the
// block is kept quantized.
double bytes_to_gather(const Workload& w, const model::Block& block, double each);

}  // namespace dpo::plan
