#include "comm/throttled.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace dpo::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

class Throttled : public Group {
 public:
  Throttled(std::shared_ptr<Group> group, std::shared_ptr<Link> link)
      : group_(std::move(group)), link_(std::move(link)) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }

  Work all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    return slowed(2 * tensor.nbytes(), group_->all_reduce(tensor, reduction));
  }
  Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    return slowed(into.nbytes(), group_->all_gather(into, own));
  }
  Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) override {
    return slowed(from.nbytes(), group_->reduce_scatter(own, from));
  }
  Work broadcast(const at::Tensor& tensor, int root) override {
    return slowed(tensor.nbytes(), group_->broadcast(tensor, root));
  }
  void barrier() override { group_->barrier(); }
  std::shared_ptr<Group> split(int colour) override { return throttled(group_->split(colour), link_); }

 private:
  // Delays an operation by the time for sending `bytes`.
  Work slowed(std::size_t bytes, Work work) {
    return ending_after(link_->send(sent_by_ring(bytes, size()), seconds_now()), std::move(work));
  }

  std::shared_ptr<Group> group_;
  std::shared_ptr<Link> link_;
};

}  // namespace

double seconds_now() { return Seconds(Clock::now().time_since_epoch()).count(); }

Work ending_after(double time, Work work) {
  return Work([time, work = std::move(work)]() mutable {
    work.wait();
    std::this_thread::sleep_until(
        Clock::time_point(std::chrono::duration_cast<Clock::duration>(Seconds(time))));
  });
}

double sent_by_ring(std::size_t bytes, int ranks) {
  return static_cast<double>(bytes) * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

double Link::send(double bytes, double now) {
  sent_ += bytes;
  busy_until_ = std::max(busy_until_, now) + bytes / speed_;
  return busy_until_;
}

std::shared_ptr<Group> throttled(std::shared_ptr<Group> group, std::shared_ptr<Link> link) {
  return std::make_shared<Throttled>(std::move(group), std::move(link));
}

}  // namespace dpo::comm
