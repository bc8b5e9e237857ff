#include "shard/offloaded_store.h"

namespace dpo::shard {

OffloadedStore::OffloadedStore(const model::TensorTable& table, const model::Weights& host,
                               const std::vector<at::Device>& devices, const Mesh& mesh)
    : FetchingStore(table, host.dtype(), devices, mesh), host_(host) {
  for (const at::Device& device : devices) streams_.try_emplace(device.index(), device);
}

OffloadedStore::~OffloadedStore() {
  try {
    for (const auto& [device, stream] : streams_) stream.finish();
  } catch (...) {  // a failed device has been reported
  }
}

// Waits for the current stream, because the memory may belong to a block that is still being computed with.
comm::Work OffloadedStore::fetch(std::size_t block, const at::Tensor& flat) {
  ops::CopyStream& stream = streams_.at(flat.device().index());
  stream.wait_for_current();
  stream.copy(flat, host_.blocks[block].flat);
  return comm::Work([&stream, event = stream.record()] { stream.make_current_stream_wait(event); });
}

}  // namespace dpo::shard
