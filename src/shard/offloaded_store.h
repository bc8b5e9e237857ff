#pragma once

#include <map>
#include <vector>

#include "ops/transfers.h"
#include "shard/fetching_store.h"

namespace dpo::shard {

// A store of weights in host memory (offload=reference). A block is copied to its device before it is used,
// while the previous block computes. At most two blocks are on a device. Weights must not change while they
// are being copied.
class OffloadedStore : public FetchingStore {
 public:
  OffloadedStore(const model::TensorTable& table, const model::Weights& host,
                 const std::vector<at::Device>& devices, const Mesh& mesh);
  ~OffloadedStore() override;

 protected:
  comm::Work fetch(std::size_t block, const at::Tensor& flat) override;

 private:
  const model::Weights& host_;
  std::map<at::DeviceIndex, ops::CopyStream> streams_;  // one per device
};

}  // namespace dpo::shard
