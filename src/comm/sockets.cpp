#include "comm/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace dpo::comm {
namespace {

// Opens a socket. A network socket accepts IPv6 and IPv4 if the machine has IPv6, otherwise only IPv4.
Descriptor new_socket(Reach reach) {
  if (reach == Reach::this_machine)
    return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  Descriptor both(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!both.is_open()) return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int off = 0;
  ::setsockopt(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return both;
}

int bind_to(int socket, std::uint16_t port, Reach reach) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);  // reads the address family
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 all{};
    all.sin6_family = AF_INET6;
    all.sin6_port = htons(port);
    return ::bind(socket, reinterpret_cast<const sockaddr*>(&all), sizeof all);
  }
  sockaddr_in all{};
  if (reach == Reach::this_machine) all.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  all.sin_family = AF_INET;
  all.sin_port = htons(port);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&all), sizeof all);
}

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool is_connected_within(int socket, std::chrono::milliseconds timeout) {
  pollfd waiting{socket, POLLOUT, 0};
  if (::poll(&waiting, 1, static_cast<int>(timeout.count())) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

ListeningSocket listen_on(std::optional<std::uint16_t> port, Reach reach) {
  ListeningSocket listening{new_socket(reach), 0};
  const int on = 1;
  ::setsockopt(listening.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind_to(listening.socket.get(), port.value_or(0), reach) != 0 ||
      ::listen(listening.socket.get(), SOMAXCONN) != 0) {
    const int reason = errno;
    if (port)
      throw UserError(fmt::format("fsdp_port={} cannot be used: {}; choose another, or null for a free one",
                                  *port, std::strerror(reason)));
    throw UserError(
        fmt::format("cannot open a port for the processes of this run: {}", std::strerror(reason)));
  }
  listening.port = port_of(listening.socket.get());
  return listening;
}

bool is_within_machine(std::string_view interface, std::string_view address) {
  constexpr std::array<std::string_view, 8> kVirtual = {"docker", "br-",     "virbr",  "veth",
                                                        "cni",    "flannel", "podman", "lxc"};
  return address.starts_with("169.254.") ||
         std::ranges::any_of(kVirtual, [&](std::string_view name) { return interface.starts_with(name); });
}

std::vector<std::string> own_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {kThisMachine};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(found, ::freeifaddrs);
  std::vector<std::string> ipv4, ipv6, unlikely;
  for (const ifaddrs* at = list.get(); at; at = at->ifa_next) {
    if (!at->ifa_addr || (at->ifa_flags & IFF_LOOPBACK) || !(at->ifa_flags & IFF_UP)) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (at->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      const std::string written = ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
      (is_within_machine(at->ifa_name, written) ? unlikely : ipv4).push_back(written);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      ipv6.emplace_back(::inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text));
    }
  }
  ipv4.insert(ipv4.end(), ipv6.begin(), ipv6.end());
  ipv4.insert(ipv4.end(), unlikely.begin(), unlikely.end());
  ipv4.emplace_back(kThisMachine);
  return ipv4;
}

Descriptor connect_to(const std::string& address, std::uint16_t port, std::chrono::milliseconds timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return Descriptor();
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  for (const addrinfo* at = list.get(); at; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) continue;
    const int done = ::connect(socket.get(), at->ai_addr, at->ai_addrlen);
    if (done != 0 && (errno != EINPROGRESS || !is_connected_within(socket.get(), timeout))) continue;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket;
  }
  return Descriptor();
}

std::string find_reachable(const std::vector<std::string>& addresses, std::uint16_t port,
                           std::chrono::milliseconds timeout) {
  for (const std::string& address : addresses)
    if (connect_to(address, port, timeout).is_open()) return address;
  throw UserError(
      fmt::format("no connection to port {} of rank 0 at any of its addresses: {}; is there a firewall?",
                  port, fmt::join(addresses, ", ")));
}

}  // namespace dpo::comm
