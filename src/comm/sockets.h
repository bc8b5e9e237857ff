#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dpo::comm {

// A file descriptor, closed by its destructor.
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
  int release() { return std::exchange(value_, -1); }  // the caller closes it

 private:
  int value_;
};

struct ListeningSocket {
  Descriptor socket;
  std::uint16_t port = 0;
};

// Says who can connect: processes of this machine (127.0.0.1), or anyone who reaches a network interface.
enum class Reach { this_machine, network };

inline constexpr const char* kThisMachine = "127.0.0.1";

// Null: a free port. A port that is in use is a UserError that names it.
ListeningSocket listen_on(std::optional<std::uint16_t> port, Reach reach = Reach::network);

std::string host_name();

// Addresses under which other machines may reach this one, the likeliest first.
std::vector<std::string> own_addresses();

// A connected socket; not open if that failed.
Descriptor connect_to(const std::string& address, std::uint16_t port, std::chrono::milliseconds timeout);

}  // namespace dpo::comm
