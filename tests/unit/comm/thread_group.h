// Ranks as threads of one process, for tests.
#pragma once

#include <barrier>
#include <stdexcept>
#include <vector>

#include "comm/group.h"

namespace dpo::comm {

struct ThreadWorld {
  explicit ThreadWorld(int ranks) : size(ranks), turn(ranks), given(static_cast<std::size_t>(ranks)) {}
  const int size;
  std::barrier<> turn;
  std::vector<at::Tensor> given;
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(ThreadWorld& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return world_.size; }
  void barrier() override { world_.turn.arrive_and_wait(); }
  Work broadcast(const at::Tensor& tensor, int root) override {
    give(tensor);
    tensor.copy_(world_.given[static_cast<std::size_t>(root)]);
    barrier();
    return {};
  }
  Work all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    if (reduction != Reduction::sum) throw std::logic_error("unused");
    give(tensor);
    tensor.zero_();
    for (const at::Tensor& other : world_.given) tensor.add_(other);
    barrier();
    return {};
  }
  Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    give(own);
    const at::Tensor parts = into.view({world_.size, own.numel()});
    for (int rank = 0; rank < world_.size; ++rank)
      parts[rank].copy_(world_.given[static_cast<std::size_t>(rank)].view({-1}));
    barrier();
    return {};
  }
  Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) override {
    give(from);
    own.zero_();
    for (const at::Tensor& other : world_.given) own.add_(other.narrow(0, rank_ * own.numel(), own.numel()));
    barrier();
    return {};
  }
  std::shared_ptr<Group> split(int) override { throw std::logic_error("unused"); }

 private:
  void give(const at::Tensor& tensor) {
    world_.given[static_cast<std::size_t>(rank_)] = tensor.clone();
    barrier();
  }

  ThreadWorld& world_;
  const int rank_;
};

}  // namespace dpo::comm
