#pragma once

#include <map>
#include <vector>

#include "ops/transfers.h"
#include "shard/fetching_store.h"

namespace dpo::shard {

// Weights in host memory (offload=reference): a block is copied to its device before it is used, while the
// one before it is computed with; at most two are there. They must not change while one is being copied.
class OffloadedStore : public FetchingStore {
 public:
  OffloadedStore(const model::TensorTable& table, const model::Weights& host,
                 const std::vector<at::Device>& devices, const Mesh& mesh);
  ~OffloadedStore() override;

 protected:
  comm::Work fetch(std::size_t block, const at::Tensor& flat) override;

 private:
  const model::Weights& host_;
  std::map<at::DeviceIndex, ops::CopyStream> streams_;  // by device
};

}  // namespace dpo::shard
