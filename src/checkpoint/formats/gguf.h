// Writes GGUF, the file format of llama.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dpo::checkpoint {

// Number formats of tensors, with the numbers that GGUF gives them. q8_0 and q4_0 store 32 numbers of a row
// as one scale in f16 and integers of 8 or 4 bits.
enum class GgufDtype : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q8_0 = 8, bf16 = 30 };

std::string_view name_of(GgufDtype dtype);
std::optional<GgufDtype> gguf_dtype_named(std::string_view name);  // f32, f16, bf16, q8_0 or q4_0

inline constexpr std::int64_t kGgufBlock = 32;  // numbers in a block of q8_0 and q4_0
bool has_blocks(GgufDtype dtype);

// Returns the bytes of `values` as ggml's reference computes them, bit for bit. With blocks, their number is
// a multiple of kGgufBlock.
std::vector<std::byte> gguf_bytes(std::span<const float> values, GgufDtype dtype);

using GgufValue = std::variant<bool, std::uint32_t, float, std::string, std::vector<std::string>,
                               std::vector<float>, std::vector<std::int32_t>>;
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

// A tensor to write. `values` is called once, when the tensor is written; the numbers remain valid until the
// next tensor's call.
struct GgufTensor {
  std::string name;
  GgufDtype dtype{};
  std::vector<std::int64_t> shape;  // the last dimension is contiguous, as in PyTorch
  std::function<std::span<const float>()> values;

  std::int64_t count() const;
  std::uint64_t bytes() const;
};

// Writes a file, which is complete or absent, and returns its size in bytes. `progress` gets the bytes of
// tensors written so far and of all tensors. Throws a UserError if the dtype of a tensor
// cannot represent one of its numbers.
std::uint64_t write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                         const std::vector<GgufTensor>& tensors,
                         const std::function<void(std::int64_t done, std::int64_t total)>& progress);

}  // namespace dpo::checkpoint
