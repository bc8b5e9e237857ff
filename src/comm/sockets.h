#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dpo::comm {

// An open file, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();

  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void close() { *this = Descriptor(); }

 private:
  int value_;
};

// A socket that others can connect to, on every network of this machine.
struct Door {
  Descriptor socket;
  std::uint16_t port = 0;
};

// A port that is taken is a UserError that names it; null: one that is free.
Door open_door(std::optional<std::uint16_t> port);

// What this machine calls itself.
std::string host_name();

// What others may call this machine, the likeliest first.
std::vector<std::string> own_addresses();

// A connection, or one that is not open.
Descriptor connect_to(const std::string& address, std::uint16_t port, std::chrono::milliseconds patience);

}  // namespace dpo::comm
