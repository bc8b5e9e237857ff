#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dpo::comm {

// Owns a file descriptor and closes it in the destructor.
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

// Who can connect: processes of this machine (127.0.0.1), or anyone who can reach a network interface.
enum class Reach { this_machine, network };

inline constexpr const char* kThisMachine = "127.0.0.1";

// Listens on a port, or on any free port if it is nullopt. Throws a UserError that names the port if it is in
// use.
ListeningSocket listen_on(std::optional<std::uint16_t> port, Reach reach = Reach::network);

std::string host_name();

// Returns the addresses under which other machines may reach this one, the likeliest first.
std::vector<std::string> own_addresses();

// True if other machines probably cannot reach an address: it is link-local, or of a network of containers.
bool is_within_machine(std::string_view interface, std::string_view address);

// Connects to an address. The result is not open if that failed.
Descriptor connect_to(const std::string& address, std::uint16_t port, std::chrono::milliseconds timeout);

// Returns the first address that accepts a connection. Throws a UserError with all of them if none does.
std::string find_reachable(const std::vector<std::string>& addresses, std::uint16_t port,
                           std::chrono::milliseconds timeout);

}  // namespace dpo::comm
