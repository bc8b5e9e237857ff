#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::text {

std::uint64_t hash_bytes(std::string_view bytes);

// Maps strings to values. It is built once and uses open addressing in one array, with the keys concatenated
// in another.
class StringMap {
 public:
  explicit StringMap(std::size_t expected = 0);

  // Returns false if the key exists; it keeps its value.
  bool insert(std::string_view key, std::int32_t value);

  // Returned by find() if the key is absent.
  static constexpr std::int32_t kAbsent = -1;
  std::int32_t find(std::string_view key) const {
    const auto hash = static_cast<std::uint32_t>(hash_bytes(key));
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.value == kAbsent) return kAbsent;
      if (slot.hash == hash && slot.length == key.size() && key_of(slot) == key) return slot.value;
    }
  }

  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t start = 0;
    std::uint32_t length = 0;
    std::int32_t value = kAbsent;
  };

  std::string_view key_of(const Slot& slot) const { return {keys_.data() + slot.start, slot.length}; }
  void add_slot(const Slot& slot);

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
  std::string keys_;
};

}  // namespace dpo::text
