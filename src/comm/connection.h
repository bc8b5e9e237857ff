#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "comm/messages.h"
#include "comm/sockets.h"

namespace dpo::comm {

using Clock = std::chrono::steady_clock;

// A connection of the watchdog to another rank, or to an unverified peer that claims to be one. All functions
// return without waiting, except next().
class Connection {
 public:
  explicit Connection(Descriptor socket = Descriptor()) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  bool is_open() const { return socket_.is_open(); }
  Clock::time_point last_received() const { return last_received_; }
  void reset_timeout(Clock::time_point now) { last_received_ = now; }
  void close() { socket_.close(); }

  // Sends a message. It is dropped if the send buffer is full, because a rank that has not read for so long
  // has failed.
  void send(const Message& message);

  // Returns the messages that have arrived. Closes the connection if the other end did. Reads a limited
  // number of bytes, so that a fast sender cannot keep the caller busy; poll() reports the rest.
  std::deque<Message> receive();

  // Returns the next message, or nullopt if none arrives before `end`.
  std::optional<Message> next(Clock::time_point end);

 private:
  void read();

  Descriptor socket_;
  MessageReader reader_;
  std::deque<Message> arrived_;
  Clock::time_point last_received_ = Clock::now();
};

}  // namespace dpo::comm
