#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "comm/messages.h"
#include "comm/sockets.h"

namespace dpo::comm {

using Clock = std::chrono::steady_clock;

// A connection of the watchdog to another rank, or to a stranger who claims to be one. Nothing here waits,
// except next().
class Connection {
 public:
  explicit Connection(Descriptor socket = Descriptor()) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  bool is_open() const { return socket_.is_open(); }
  Clock::time_point last_received() const { return last_received_; }
  void reset_timeout(Clock::time_point now) { last_received_ = now; }
  void close() { socket_.close(); }

  // A message is dropped if the send buffer is full: a rank that has not read for so long has failed anyway.
  void send(const Message& message);

  // The messages that have arrived. Closes the connection if the other end did. Reads a limited number of
  // bytes, so that a fast sender cannot hold the caller; poll() reports the rest.
  std::deque<Message> receive();

  // The next message, if it arrives in time.
  std::optional<Message> next(Clock::time_point end);

 private:
  void read();

  Descriptor socket_;
  MessageReader reader_;
  std::deque<Message> arrived_;
  Clock::time_point last_received_ = Clock::now();
};

}  // namespace dpo::comm
