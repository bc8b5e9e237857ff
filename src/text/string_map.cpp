#include "text/string_map.h"

#include <bit>
#include <cstring>
#include <utility>

namespace dpo::text {
namespace {

std::uint64_t load(const char* from, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, count);
  return word;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
  const std::uint64_t product = (a ^ std::rotl(b, 32)) * kOdd;
  return product ^ product >> 32;
}

}  // namespace

// Hashes bytes. Words are short: up to 16 bytes are two loads, which overlap if there are fewer.
std::uint64_t hash_bytes(std::string_view bytes) {
  const char* data = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t hash = left;
  for (; left > 16; left -= 8, data += 8) hash = mix(hash, load(data, 8));
  if (left >= 8) return mix(mix(hash, load(data, 8)), load(data + left - 8, 8));
  if (left >= 4) return mix(hash, load(data, 4) << 32 | load(data + left - 4, 4));
  if (left == 0) return mix(hash, 0);
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint64_t>(static_cast<unsigned char>(data[i]));
  };
  return mix(hash, byte(0) << 16 | byte(left / 2) << 8 | byte(left - 1));
}

StringMap::StringMap(std::size_t expected)
    : slots_(std::bit_ceil(std::max<std::size_t>(8, expected * 2))), mask_(slots_.size() - 1) {}

void StringMap::add_slot(const Slot& slot) {
  std::size_t at = slot.hash & mask_;
  while (slots_[at].value != kAbsent) at = (at + 1) & mask_;
  slots_[at] = slot;
}

bool StringMap::insert(std::string_view key, std::int32_t value) {
  if (find(key) != kAbsent) return false;
  if ((size_ + 1) * 2 > slots_.size()) {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old)
      if (slot.value != kAbsent) add_slot(slot);
  }
  add_slot({static_cast<std::uint32_t>(hash_bytes(key)), static_cast<std::uint32_t>(keys_.size()),
            static_cast<std::uint32_t>(key.size()), value});
  keys_ += key;
  ++size_;
  return true;
}

}  // namespace dpo::text
