#include "comm/counted.h"

#include "base/progress_count.h"

namespace dpo::comm {
namespace {

class Counted : public Group {
 public:
  Counted(std::shared_ptr<Group> group, std::shared_ptr<OperationCount> count)
      : group_(std::move(group)), count_(std::move(count)) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const std::shared_ptr<Group>& inner() const { return group_; }

  Work all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    begin();
    return ending(group_->all_reduce(tensor, reduction));
  }
  Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    begin();
    return ending(group_->all_gather(into, own));
  }
  Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) override {
    begin();
    return ending(group_->reduce_scatter(own, from));
  }
  Work broadcast(const at::Tensor& tensor, int root) override {
    begin();
    return ending(group_->broadcast(tensor, root));
  }
  void barrier() override {
    begin();
    group_->barrier();
    count_progress();
  }
  std::shared_ptr<Group> split(int colour) override {
    begin();
    std::shared_ptr<Group> part = group_->split(colour);
    count_progress();
    return counted(std::move(part), count_);
  }

 private:
  void begin() { count_->fetch_add(1, std::memory_order_relaxed); }

  static Work ending(Work work) {
    return Work([work]() mutable {
      work.wait();
      count_progress();
    });
  }

  std::shared_ptr<Group> group_;
  std::shared_ptr<OperationCount> count_;
};

}  // namespace

std::shared_ptr<Group> counted(std::shared_ptr<Group> group, std::shared_ptr<OperationCount> count) {
  if (group->size() == 1) return group;  // no other rank waits
  return std::make_shared<Counted>(std::move(group), std::move(count));
}

std::shared_ptr<Group> uncounted(const std::shared_ptr<Group>& group) {
  const auto* const known = dynamic_cast<const Counted*>(group.get());
  return known ? std::make_shared<Counted>(known->inner(), std::make_shared<OperationCount>(0)) : group;
}

}  // namespace dpo::comm
