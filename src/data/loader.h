#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace dpo::data {

// Prefetches items: a background thread calls `make` and keeps up to `ready` items waiting. `make` returns
// nullopt at the end. next() rethrows an exception of `make`.
template <class Item>
class Loader {
 public:
  Loader(std::function<std::optional<Item>()> make, std::size_t ready)
      : make_(std::move(make)), ready_(ready), thread_([this] { work(); }) {}

  ~Loader() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Waits for the next item. Returns nullopt at the end.
  std::optional<Item> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !items_.empty() || ended_; });
    if (!items_.empty()) {
      std::optional<Item> item = std::move(items_.front());
      items_.pop_front();
      changed_.notify_all();
      return item;
    }
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }

 private:
  void work() {
    try {
      while (std::optional<Item> item = make_()) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return items_.size() < ready_ || stopping_; });
        if (stopping_) return;
        items_.push_back(std::move(*item));
        changed_.notify_all();
      }
      end(nullptr);
    } catch (...) {
      end(std::current_exception());
    }
  }

  void end(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    ended_ = true;
    changed_.notify_all();
  }

  std::function<std::optional<Item>()> make_;
  const std::size_t ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  std::exception_ptr failure_;
  bool ended_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace dpo::data
