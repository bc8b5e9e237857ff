// Checks every collective operation of a group, in every dtype, against its expected result. Several ranks
// run it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "comm/backends.h"

namespace dpo::comm {
namespace {

const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kDouble, at::kLong, at::kBFloat16, at::kHalf};

// Returns the values that a rank contributes. Their sum depends on the order of summation.
at::Tensor content(int rank, std::int64_t count, at::ScalarType type) {
  const at::Tensor index = at::arange(count, at::kDouble);
  const at::Tensor values = at::sin(index * 0.37 + rank) * at::pow(10.0, index.remainder(4)) + rank;
  return (type == at::kLong ? values * 1000 : values).to(type);
}

// Returns the sum in rank order. 16-bit floats are summed in float32.
at::Tensor sum_of(int size, std::int64_t count, at::ScalarType type) {
  const bool narrow = type == at::kBFloat16 || type == at::kHalf;
  at::Tensor sum = content(0, count, type).to(narrow ? at::kFloat : type);
  for (int rank = 1; rank < size; ++rank) sum = sum + content(rank, count, type).to(sum.scalar_type());
  return sum.to(type);
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

class Probe {
 public:
  Probe(std::shared_ptr<Group> group, at::Device device) : group_(std::move(group)), device_(device) {}

  void everything() const {
    for (const at::ScalarType type : kTypes)
      for (const std::int64_t count : {0, 1, 2, 3, 7, 1000, 100'003}) {
        const std::string what = fmt::format("{} x {}", count, c10::toString(type));
        reduces(count, type, "all_reduce " + what);
        gathers(count, type, "all_gather " + what);
        scatters(count, type, "reduce_scatter " + what);
        broadcasts(count, type, "broadcast " + what);
      }
    bytes();
    many_at_once();
    texts();
    refusals();
  }

  void reduces(std::int64_t count, at::ScalarType type, const std::string& what) const {
    const at::Tensor tensor = content(rank(), count, type).to(device_);
    group_->all_reduce(tensor).wait();
    require(tensor.cpu().equal(sum_of(size(), count, type)), what + ": sum");
    const at::Tensor largest = content(rank(), count, type).to(device_);
    group_->all_reduce(largest, Reduction::max).wait();
    at::Tensor expected = content(0, count, type);
    for (int other = 1; other < size(); ++other)
      expected = at::maximum(expected, content(other, count, type));
    require(largest.cpu().equal(expected), what + ": max");
  }

  void gathers(std::int64_t count, at::ScalarType type, const std::string& what) const {
    std::vector<at::Tensor> parts;
    for (int other = 0; other < size(); ++other) parts.push_back(content(other, count, type));
    const at::Tensor expected = at::cat(parts), into = at::zeros_like(expected, device_);
    group_->all_gather(into, content(rank(), count, type).to(device_)).wait();
    require(into.cpu().equal(expected), what);
    const at::Tensor both = at::zeros_like(expected, device_), own = both.narrow(0, rank() * count, count);
    own.copy_(content(rank(), count, type));
    group_->all_gather(both, own).wait();
    require(both.cpu().equal(expected), what + ": in place");
  }

  void scatters(std::int64_t count, at::ScalarType type, const std::string& what) const {
    const std::int64_t all = count * size();
    const at::Tensor expected = sum_of(size(), all, type).narrow(0, rank() * count, count);
    const at::Tensor before = content(rank(), all, type),
                     from = before.to(device_, type, false, /*copy=*/true);
    const at::Tensor own = at::zeros({count}, at::TensorOptions(type).device(device_));
    group_->reduce_scatter(own, from).wait();
    require(own.cpu().equal(expected), what);
    require(from.cpu().equal(before), what + ": the source has changed");
    const at::Tensor part = from.narrow(0, rank() * count, count);
    group_->reduce_scatter(part, from).wait();
    require(part.cpu().equal(expected), what + ": in place");
  }

  void broadcasts(std::int64_t count, at::ScalarType type, const std::string& what) const {
    for (const int root : {0, size() - 1}) {
      const at::Tensor tensor = content(rank(), count, type).to(device_);
      group_->broadcast(tensor, root).wait();
      require(tensor.cpu().equal(content(root, count, type)), what);
    }
  }

  // Bytes can be copied between ranks but not reduced.
  void bytes() const {
    const at::Tensor into = at::zeros({size()}, at::TensorOptions(at::kByte).device(device_));
    group_->all_gather(into, at::full({1}, rank() + 1, at::TensorOptions(at::kByte).device(device_))).wait();
    require(into.cpu().equal(at::arange(1, size() + 1, at::kByte)), "bytes");
  }

  // Several operations are in progress together and are waited for in another order.
  void many_at_once() const {
    constexpr int kMany = 20;
    std::vector<at::Tensor> tensors;
    std::vector<Work> pending;
    for (int i = 0; i < kMany; ++i) {
      tensors.push_back(content(rank(), 1000 * i + 1, at::kFloat).to(device_));
      pending.push_back(group_->all_reduce(tensors.back()));
    }
    for (int i = kMany; i-- > 0;) pending[static_cast<std::size_t>(i)].wait();
    for (int i = 0; i < kMany; ++i)
      require(tensors[static_cast<std::size_t>(i)].cpu().equal(sum_of(size(), 1000 * i + 1, at::kFloat)),
              "many at once");
    group_->all_reduce(at::ones({5}, at::TensorOptions().device(device_)));  // nothing waits for this
    group_->barrier();
  }

  void texts() const {
    require(broadcast_text(*group_, fmt::format("from {}", rank()), size() - 1) ==
                fmt::format("from {}", size() - 1),
            "broadcast_text");
    const std::vector<std::string> all =
        gather_texts(*group_, std::string(static_cast<std::size_t>(rank()), 'x'));
    for (int other = 0; other < size(); ++other)
      require(all[static_cast<std::size_t>(other)].size() == static_cast<std::size_t>(other), "gather_texts");
  }

  // A failed operation throws from its wait(), and the next operation works.
  void refusals() const {
    if (size() == 1) return;
    Work wrong = group_->all_reduce(at::ones({3}, at::TensorOptions(at::kBool).device(device_)));
    try {
      wrong.wait();
    } catch (const std::invalid_argument&) {
      return group_->barrier();
    }
    throw std::runtime_error("booleans were summed");
  }

  // Ranks of one colour form a group, in rank order.
  void splits() const {
    const int colour = rank() % 2;
    const auto part = group_->split(colour);
    require(part->size() == (size() + 1 - colour) / 2, "split: size");
    require(part->rank() == rank() / 2, "split: rank");
    Probe(part, device_).everything();
    const at::Tensor ranks = at::full({1}, rank(), at::kLong), into = at::zeros({part->size()}, at::kLong);
    part->all_gather(into, ranks).wait();
    for (int i = 0; i < part->size(); ++i)
      require(into[i].item<std::int64_t>() == 2 * i + colour, "split: members");
    require(group_->split(rank())->size() == 1, "split: alone");
  }

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }

 private:
  std::shared_ptr<Group> group_;
  at::Device device_;
};

// Usage: group_probe DEVICE [PIECE BUFFER]. With limits it uses MPI; without, NCCL if every rank has its own
// GPU.
int probe(int argc, char** argv) {
  const at::Device device(argc > 1 ? argv[1] : "cpu");
  MpiLimits limits;
  if (argc > 3) limits = {std::stoul(argv[2]), std::stoul(argv[3])};
  const World world = argc > 3 ? mpi_world(limits) : connect(read_launch(this_environment()));
  const Probe all(world.all, device);
  all.everything();
  all.splits();
  // The result must be bitwise equal on all ranks.
  const at::Tensor sum = content(all.rank(), 100'003, at::kFloat).to(device);
  world.all->all_reduce(sum).wait();
  const at::Tensor sums = at::zeros({all.size(), sum.numel()}, sum.options());
  world.all->all_gather(sums, sum).wait();
  for (int other = 0; other < all.size(); ++other)
    require(sums[other].equal(sum), "the sums differ between ranks");
  if (all.rank() == 0)
    fmt::print("{} ranks, {} here: all operations correct\n", all.size(), world.local_size);
  return 0;
}

}  // namespace
}  // namespace dpo::comm

int main(int argc, char** argv) {
  try {
    return dpo::comm::probe(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "group_probe: {}\n", error.what());
    std::fflush(stderr);
    std::_Exit(1);
  }
}
