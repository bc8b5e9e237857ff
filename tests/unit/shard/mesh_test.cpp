#include "shard/mesh.h"

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dpo::shard {
namespace {

// A group that knows only how it was made: "all", or the number of the split and the colour.
class NamedGroup : public comm::Group {
 public:
  NamedGroup(int rank, int size, std::string name) : rank_(rank), size_(size), name_(std::move(name)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const { return name_; }
  int splits() const { return splits_; }

  comm::Work all_reduce(const at::Tensor&, comm::Reduction) override { throw std::logic_error("unused"); }
  comm::Work all_gather(const at::Tensor&, const at::Tensor&) override { throw std::logic_error("unused"); }
  comm::Work reduce_scatter(const at::Tensor&, const at::Tensor&) override {
    throw std::logic_error("unused");
  }
  comm::Work broadcast(const at::Tensor&, int) override { throw std::logic_error("unused"); }
  void barrier() override { throw std::logic_error("unused"); }
  std::shared_ptr<comm::Group> split(int colour) override {
    const std::string name = std::to_string(splits_++) + ":" + std::to_string(colour);
    return std::make_shared<NamedGroup>(0, 2, name);  // of more than one rank
  }

 private:
  int rank_, size_;
  std::string name_;
  int splits_ = 0;
};

std::string name_of(const std::shared_ptr<comm::Group>& group, int rank) {
  const auto* const named = dynamic_cast<const NamedGroup*>(group.get());
  return named ? named->name() : "alone " + std::to_string(rank);
}

struct Meshes {
  // For each of the five groups, the ranks that share a communicator, by its name.
  std::vector<std::map<std::string, std::set<int>>> members =
      std::vector<std::map<std::string, std::set<int>>>(5);
  int splits = 0;  // by each rank
};

Meshes meshes_of(const config::MeshShape& shape) {
  Meshes meshes;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const auto all = std::make_shared<NamedGroup>(rank, static_cast<int>(shape.ranks()), "all");
    const Mesh mesh = make_mesh({.all = all}, shape, at::kCPU);
    int i = 0;
    // A tensor-parallel group is wrapped if the batch is divided, so it is compared through the others.
    for (const auto& group : {mesh.shard, mesh.replica, mesh.data, mesh.model})
      meshes.members[i++][name_of(group, rank)].insert(rank);
    if (rank > 0) {
      EXPECT_EQ(all->splits(), meshes.splits) << "every rank must take part in every split";
    }
    meshes.splits = all->splits();
  }
  return meshes;
}

struct Place {
  std::int64_t replica, shard, tensor;
};

Place place_of(int rank, const config::MeshShape& shape) {
  return {rank / (shape.tensor * shape.shard), rank / shape.tensor % shape.shard, rank % shape.tensor};
}

template <class Together>
void expect_groups(const std::map<std::string, std::set<int>>& members, const config::MeshShape& shape,
                   const Together& together) {
  for (const auto& [name, ranks] : members)
    for (int other = 0; other < shape.ranks(); ++other)
      EXPECT_EQ(ranks.contains(other), together(place_of(*ranks.begin(), shape), place_of(other, shape)))
          << name << ": rank " << other;
}

TEST(Mesh, HasTheRanksOfEachDimension) {
  for (const std::int64_t replica : {1, 2, 3})
    for (const std::int64_t shard : {1, 2, 4})
      for (const std::int64_t tensor : {1, 2}) {
        const config::MeshShape shape{replica, shard, tensor};
        SCOPED_TRACE(testing::Message() << replica << " x " << shard << " x " << tensor);
        const Meshes meshes = meshes_of(shape);
        expect_groups(meshes.members[0], shape, [](const Place& a, const Place& b) {
          return a.replica == b.replica && a.tensor == b.tensor;
        });
        expect_groups(meshes.members[1], shape, [](const Place& a, const Place& b) {
          return a.shard == b.shard && a.tensor == b.tensor;
        });
        expect_groups(meshes.members[2], shape,
                      [](const Place& a, const Place& b) { return a.tensor == b.tensor; });
        expect_groups(meshes.members[3], shape,
                      [](const Place& a, const Place& b) { return a.replica == b.replica; });
      }
}

// Each NCCL communicator takes GPU memory.
TEST(Mesh, NeedsNoSecondCommunicatorForTheSameRanks) {
  EXPECT_EQ(meshes_of({1, 1, 1}).splits, 0);
  EXPECT_EQ(meshes_of({1, 8, 1}).splits, 0);  // FSDP
  EXPECT_EQ(meshes_of({8, 1, 1}).splits, 0);
  EXPECT_EQ(meshes_of({1, 1, 8}).splits, 0);
  EXPECT_EQ(meshes_of({2, 4, 1}).splits, 2);  // shards and replicas
  EXPECT_EQ(meshes_of({2, 1, 4}).splits, 2);
  EXPECT_EQ(meshes_of({2, 2, 2}).splits, 5);
}

TEST(Mesh, AsksForGroupsBySizeAndStride) {
  std::vector<std::pair<std::int64_t, std::int64_t>> asked;
  const auto all = std::make_shared<NamedGroup>(0, 12, "all");
  make_mesh(all, {.replica = 2, .shard = 3, .tensor = 2}, at::kCPU,
            [&](std::int64_t size, std::int64_t stride) -> std::shared_ptr<comm::Group> {
              asked.emplace_back(size, stride);
              return std::make_shared<NamedGroup>(0, static_cast<int>(size), "part");
            });
  using Asked = decltype(asked);
  EXPECT_EQ(asked, (Asked{{2, 1}, {3, 2}, {2, 6}, {6, 2}, {6, 1}}));
}

}  // namespace
}  // namespace dpo::shard
