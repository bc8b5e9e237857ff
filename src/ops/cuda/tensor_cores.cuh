// The instructions of tensor cores, from compute capability 8.0 on. A warp holds matrices in pieces: each
// lane two neighbours in a row of every 8 x 8 block.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace dpo::cuda {

// A left operand: 16 rows of 16. The blocks are: top left, bottom left, top right, bottom right.
struct Left {
  std::uint32_t blocks[4];
};

// Two right operands side by side: 16 deep, 2 x 8 columns. The blocks are: upper and lower of the first,
// upper and lower of the second.
struct Right {
  std::uint32_t blocks[4];
};

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Four blocks of 8 x 8 from shared memory; lane i gives the address of row i % 8 of block i / 8.
__device__ inline void load_blocks(std::uint32_t (&blocks)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(shared_address(row))
               : "memory");
}

// The same, each block transposed.
__device__ inline void load_blocks_transposed(std::uint32_t (&blocks)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(shared_address(row))
               : "memory");
}

// sum (16 x 8) += left (16 x 16) * one of the operands of a Right (16 x 8).
__device__ inline void multiply_add(float (&sum)[4], const Left& left, std::uint32_t upper,
                                    std::uint32_t lower) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left.blocks[0]), "r"(left.blocks[1]), "r"(left.blocks[2]), "r"(left.blocks[3]), "r"(upper),
        "r"(lower));
}

// Copies to shared memory while the thread goes on; zeros if there is nothing to copy.
template <int kBytes>
__device__ inline void copy_async(void* to, const void* from, bool exists) {
  static_assert(kBytes == 4 || kBytes == 16);
  const int bytes = exists ? kBytes : 0;
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}

// Ends a group of copies.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the last kGroups groups of this thread's copies are under way.
template <int kGroups>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

__device__ inline std::uint32_t as_pair(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

}  // namespace dpo::cuda
