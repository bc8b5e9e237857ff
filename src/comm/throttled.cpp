#include "comm/throttled.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace dpo::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

double now() { return Seconds(Clock::now().time_since_epoch()).count(); }

void sleep_until(double time) {
  std::this_thread::sleep_until(
      Clock::time_point(std::chrono::duration_cast<Clock::duration>(Seconds(time))));
}

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
  // Delays an operation by the time for sending `bytes`, except for the rank's own part, which is not sent.
  Work slowed(std::size_t bytes, Work work) {
    const double share = static_cast<double>(size() - 1) / static_cast<double>(size());
    const double arrival = link_->send(share * static_cast<double>(bytes), now());
    return Work([arrival, work]() mutable {
      work.wait();
      sleep_until(arrival);
    });
  }

  std::shared_ptr<Group> group_;
  std::shared_ptr<Link> link_;
};

}  // namespace

double Link::send(double bytes, double now) {
  sent_ += bytes;
  busy_until_ = std::max(busy_until_, now) + bytes / speed_;
  return busy_until_;
}

std::shared_ptr<Group> throttled(std::shared_ptr<Group> group, std::shared_ptr<Link> link) {
  return std::make_shared<Throttled>(std::move(group), std::move(link));
}

}  // namespace dpo::comm
