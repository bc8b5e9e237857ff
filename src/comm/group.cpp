#include "comm/group.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>

namespace dpo::comm {
namespace {

// Copies, unless `into` and `from` are the same memory.
Work copied(const at::Tensor& into, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  if (into.const_data_ptr() != from.const_data_ptr()) into.copy_(from);
  return {};
}

class SingleGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Work all_reduce(const at::Tensor&, Reduction) override { return {}; }
  Work all_gather(const at::Tensor& into, const at::Tensor& own) override { return copied(into, own); }
  Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) override { return copied(own, from); }
  Work broadcast(const at::Tensor&, int) override { return {}; }
  void barrier() override {}
  std::shared_ptr<Group> split(int) override { return single(); }
};

}  // namespace

std::shared_ptr<Group> single() { return std::make_shared<SingleGroup>(); }

std::string broadcast_text(Group& group, const std::string& text, int root) {
  const at::Tensor length = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  group.broadcast(length, root).wait();
  const at::Tensor bytes = at::empty({length.item<std::int64_t>()}, at::kByte);
  if (group.rank() == root) std::ranges::copy(text, static_cast<char*>(bytes.mutable_data_ptr()));
  group.broadcast(bytes, root).wait();
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

std::vector<std::string> gather_texts(Group& group, const std::string& own) {
  const at::Tensor lengths = at::empty({group.size()}, at::kLong);
  group.all_gather(lengths, at::full({1}, static_cast<std::int64_t>(own.size()), at::kLong)).wait();
  const std::int64_t width = lengths.max().item<std::int64_t>();
  const at::Tensor bytes = at::empty({group.size(), width}, at::kByte);
  const at::Tensor padded = at::full({width}, 0, at::kByte);
  std::ranges::copy(own, static_cast<char*>(padded.mutable_data_ptr()));
  group.all_gather(bytes, padded).wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank)
    texts.emplace_back(static_cast<const char*>(bytes.const_data_ptr()) + rank * width,
                       static_cast<std::size_t>(lengths[rank].item<std::int64_t>()));
  return texts;
}

}  // namespace dpo::comm
