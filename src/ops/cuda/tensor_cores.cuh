// Wraps the instructions of tensor cores, from compute capability 8.0 on. Kernels that use them compile for
// older GPUs too, but must not be called there. A warp holds matrices in pieces: each lane has two neighbours
// in a row of every 8 x 8 block.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace dpo::cuda {

// A left operand, 16 x 16. Blocks: top left, bottom left, top right, bottom right.
struct Left {
  std::uint32_t blocks[4];
};

// Two right operands side by side, each 16 x 8. Blocks: upper and lower of the first, upper and lower of the
// second.
struct Right {
  std::uint32_t blocks[4];
};

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
// Loads four 8 x 8 blocks from shared memory. Lane i passes the address of row i % 8 of block i / 8.
__device__ inline void load_blocks(std::uint32_t (&blocks)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(shared_address(row))
               : "memory");
}

// Loads blocks like load_blocks(), each transposed.
__device__ inline void load_blocks_transposed(std::uint32_t (&blocks)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(shared_address(row))
               : "memory");
}

// Computes sum (16 x 8) += left (16 x 16) * one operand of a Right (16 x 8).
__device__ inline void multiply_add(float (&sum)[4], const Left& left, std::uint32_t upper,
                                    std::uint32_t lower) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left.blocks[0]), "r"(left.blocks[1]), "r"(left.blocks[2]), "r"(left.blocks[3]), "r"(upper),
        "r"(lower));
}

// Copies to shared memory asynchronously. Writes zeros if `exists` is false.
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

// Waits until at most the last kGroups groups of this thread's copies are in flight.
template <int kGroups>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

#else
__device__ inline void load_blocks(std::uint32_t (&)[4], const __nv_bfloat16*) {}
__device__ inline void load_blocks_transposed(std::uint32_t (&)[4], const __nv_bfloat16*) {}
__device__ inline void multiply_add(float (&)[4], const Left&, std::uint32_t, std::uint32_t) {}
template <int kBytes>
__device__ inline void copy_async(void*, const void*, bool) {
  __trap();
}
__device__ inline void end_copies() {}
template <int kGroups>
__device__ inline void wait_for_copies() {}
#endif

// Returns the position of a 16-byte pack in a row of 128 bytes. Equal packs of 8 rows are in different banks.
__device__ inline int swizzled(int row, int pack) { return pack ^ (row & 7); }

__device__ inline std::uint32_t as_pair(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// On Hopper the four warps of a group multiply together: 64 rows on the left, 16 per warp. The right operand,
// or both, are read from shared memory.
#define DPO_WARP_GROUPS

// Returns the descriptor of a matrix in shared memory from this address on: rows of 128 bytes, swizzled.
__device__ inline std::uint64_t matrix_at(const __nv_bfloat16* first) {
  constexpr std::uint64_t kEightRows = 8 * 128 >> 4, kSwizzle = 1;
  return (shared_address(first) & 0x3ffff) >> 4 | std::uint64_t{1} << 16 | kEightRows << 32 | kSwizzle << 62;
}

// Returns the descriptor of the matrix `elements` further on, with one addition. Calling matrix_at() for that
// address would take longer than the matmuls.
__device__ inline std::uint64_t matrix_after(std::uint64_t matrix, int elements) {
  return matrix + static_cast<std::uint64_t>(elements / 8);  // addresses are in units of 16 bytes
}

// Must precede the first of a series of matmuls. Makes earlier register and memory writes visible to them.
__device__ inline void begin_matmuls() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Ends a group of matmuls, which run while the threads continue.
__device__ inline void end_matmuls() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most the last kGroups groups of matmuls are in flight.
template <int kGroups>
__device__ inline void wait_for_matmuls() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}
// Must be called after waiting for the matmuls that write these sums. Otherwise the compiler could read them
// earlier.
template <int kBlocks>
__device__ inline void take_sums(float (&sums)[kBlocks][4]) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i)
    asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
}
// Makes this thread's copies to shared memory visible to matmuls.
__device__ inline void publish_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define DPO_SUMS(i) "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
#define DPO_SUMS_OF_32 DPO_SUMS(0), DPO_SUMS(1), DPO_SUMS(2), DPO_SUMS(3)
#define DPO_SUMS_OF_64 DPO_SUMS_OF_32, DPO_SUMS(4), DPO_SUMS(5), DPO_SUMS(6), DPO_SUMS(7)

// Computes sum (64 x 32) = left (64 x 16) * right^T, or += if kAdd. Both operands are in shared memory.
template <bool kAdd>
__device__ inline void group_multiply(float (&sum)[4][4], std::uint64_t left, std::uint64_t right) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, %16, %17, p, 1, 1, 0, 0;}"
      : DPO_SUMS_OF_32
      : "l"(left), "l"(right), "n"(kAdd));
}

// Overload with 64 columns.
template <bool kAdd>
__device__ inline void group_multiply(float (&sum)[8][4], std::uint64_t left, std::uint64_t right) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, p, 1, 1, 0, 0;}"
      : DPO_SUMS_OF_64
      : "l"(left), "l"(right), "n"(kAdd));
}

// Overload with the left operand in registers. With kAcross it multiplies by right (16 x 64), not right^T.
template <bool kAdd, bool kAcross>
__device__ inline void group_multiply(float (&sum)[8][4], const Left& left, std::uint64_t right) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;}"
      : DPO_SUMS_OF_64
      : "r"(left.blocks[0]), "r"(left.blocks[1]), "r"(left.blocks[2]), "r"(left.blocks[3]), "l"(right),
        "n"(kAdd), "n"(kAcross));
}
#undef DPO_SUMS_OF_64
#undef DPO_SUMS_OF_32
#undef DPO_SUMS
#endif

}  // namespace dpo::cuda
