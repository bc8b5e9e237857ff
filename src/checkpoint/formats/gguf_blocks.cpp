// Rounds numbers as ggml's reference does, bit for bit. The file is compiled with -ffp-contract=off, because
// a fused multiply-add rounds once where the reference rounds twice.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "checkpoint/formats/gguf.h"

namespace dpo::checkpoint {
namespace {

constexpr std::uint32_t kInfinity = 0x7F800000;

// Rounds to the nearest number of 16 bits, ties to even.
std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const auto with_sign = [sign](std::uint32_t rest) { return static_cast<std::uint16_t>(sign | rest); };
  if (magnitude > kInfinity) return with_sign(0x7E00);
  if (magnitude >= 0x47800000) return with_sign(0x7C00);  // 65536 and above
  if (magnitude < 0x38800000) {  // below 2^-14; the sum with 0.5 has the precision of such small numbers
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return with_sign(std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F));
  }
  magnitude += 0xFFF + (magnitude >> 13 & 1);
  return with_sign((magnitude - 0x38000000) >> 13);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > kInfinity) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

std::byte* put(std::byte* out, std::uint16_t value) {
  *out++ = static_cast<std::byte>(value & 0xFF);
  *out++ = static_cast<std::byte>(value >> 8);
  return out;
}

float inverse(float scale) { return scale == 0 ? 0 : 1 / scale; }

std::byte* put_q8_0(std::byte* out, std::span<const float> block) {
  float largest = 0;
  for (const float x : block) largest = std::max(largest, std::abs(x));
  const float scale = largest / 127, factor = inverse(scale);
  out = put(out, to_f16(scale));
  for (const float x : block)
    *out++ = static_cast<std::byte>(static_cast<std::int8_t>(std::round(x * factor)));
  return out;
}

// Maps the number with the largest magnitude to -8, and stores each number of the first half of the block
// with one of the second half in a byte.
std::byte* put_q4_0(std::byte* out, std::span<const float> block) {
  float extreme = 0;
  for (const float x : block)
    if (std::abs(x) > std::abs(extreme)) extreme = x;
  const float scale = extreme / -8, factor = inverse(scale);
  const auto code = [factor](float x) {
    const float scaled = x * factor;
    return static_cast<std::uint8_t>(std::min(15, static_cast<int>(scaled + 8.5F)));
  };
  out = put(out, to_f16(scale));
  const std::size_t half = block.size() / 2;
  for (std::size_t i = 0; i < half; ++i)
    *out++ = static_cast<std::byte>(code(block[i]) | code(block[i + half]) << 4);
  return out;
}

std::uint64_t bytes_of_block(GgufDtype dtype) {
  switch (dtype) {
    case GgufDtype::f32: return 4 * kGgufBlock;
    case GgufDtype::f16:
    case GgufDtype::bf16: return 2 * kGgufBlock;
    case GgufDtype::q8_0: return 2 + kGgufBlock;
    case GgufDtype::q4_0: break;
  }
  return 2 + kGgufBlock / 2;
}

std::byte* put_block(std::byte* out, std::span<const float> block, GgufDtype dtype) {
  switch (dtype) {
    case GgufDtype::f32: std::memcpy(out, block.data(), block.size_bytes()); return out + block.size_bytes();
    case GgufDtype::f16:
      for (const float x : block) out = put(out, to_f16(x));
      return out;
    case GgufDtype::bf16:
      for (const float x : block) out = put(out, to_bf16(x));
      return out;
    case GgufDtype::q8_0: return put_q8_0(out, block);
    case GgufDtype::q4_0: break;
  }
  return put_q4_0(out, block);
}

}  // namespace

bool has_blocks(GgufDtype dtype) { return dtype == GgufDtype::q8_0 || dtype == GgufDtype::q4_0; }

std::uint64_t GgufTensor::bytes() const {
  return static_cast<std::uint64_t>(count()) * bytes_of_block(dtype) / kGgufBlock;
}

std::vector<std::byte> gguf_bytes(std::span<const float> values, GgufDtype dtype) {
  std::vector<std::byte> bytes(values.size() * bytes_of_block(dtype) / kGgufBlock);
  std::byte* out = bytes.data();
  for (std::size_t at = 0; at < values.size(); at += kGgufBlock)
    out = put_block(out, values.subspan(at, std::min<std::size_t>(kGgufBlock, values.size() - at)), dtype);
  return bytes;
}

}  // namespace dpo::checkpoint
