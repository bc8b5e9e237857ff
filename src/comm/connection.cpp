#include "comm/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace dpo::comm {

void Connection::send(const Message& message) {
  const std::string text = line_of(message);
  [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

void Connection::read() {
  constexpr int kMostPieces = 16;
  std::array<char, 4096> bytes;
  for (int piece = 0; piece < kMostPieces && is_open(); ++piece) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      last_received_ = Clock::now();
      for (Message& message : reader_.add({bytes.data(), static_cast<std::size_t>(count)}))
        arrived_.push_back(std::move(message));
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return;
    } else if (count == 0 || errno != EINTR) {
      close();
    }
  }
}

std::deque<Message> Connection::receive() {
  read();
  return std::exchange(arrived_, {});
}

std::optional<Message> Connection::next(Clock::time_point end) {
  while (arrived_.empty() && is_open()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    pollfd waiting{descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(left.count()));
    read();
  }
  if (arrived_.empty()) return std::nullopt;
  Message first = std::move(arrived_.front());
  arrived_.pop_front();
  return first;
}

}  // namespace dpo::comm
