#include "run/rehearsal.h"

#include <algorithm>

#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "comm/rehearsed.h"
#include "comm/throttled.h"
#include "ops/devices.h"
#include "ops/fused.h"
#include "ops/transfers.h"
#include "train/train_state.h"

namespace dpo::run {
namespace {

constexpr int kRank = 0;  // gets the longest example of each batch (data::partition_batch)

// A wire whose transfers the host waits for.
class HostWire : public comm::Wire {
 public:
  comm::Work send(double seconds, const std::function<void()>& copies) override {
    busy_until_ = std::max(busy_until_, comm::seconds_now()) + seconds;
    copies();
    return comm::ending_after(busy_until_);
  }

 private:
  double busy_until_ = 0;
};

// A wire whose transfers are on a stream of their own, like those of a NCCL communicator. The host does not
// wait.
class StreamWire : public comm::Wire {
 public:
  explicit StreamWire(at::Device gpu)
      : stream_(gpu), began_(at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(gpu))) {}

  comm::Work send(double seconds, const std::function<void()>& copies) override {
    stream_.wait_for_current();
    stream_.run([&] {
      const bool has_kernels = ops::fused::mark_time(began_);
      copies();
      if (!has_kernels || !ops::fused::wait_since(began_, seconds))
        throw UserError("--as needs dpo's CUDA kernels on a GPU, and this dpo was built without nvcc");
    });
    return comm::Work([stream = stream_, sent = stream_.record()] { stream.make_current_stream_wait(sent); });
  }

 private:
  ops::CopyStream stream_;
  at::Tensor began_;  // time
};

std::shared_ptr<comm::Wire> make_wire(at::Device device) {
  if (device.is_cpu()) return std::make_shared<HostWire>();
  return std::make_shared<StreamWire>(device);
}

shard::Mesh rehearsed_mesh(const plan::Machine& machine, const config::MeshShape& shape, at::Device device,
                           const std::shared_ptr<comm::Transfers>& transfers) {
  const auto group = [&](std::int64_t size, std::int64_t stride) {
    return comm::rehearsed({.rank = static_cast<int>(kRank / stride % size),
                            .size = static_cast<int>(size),
                            .bytes_per_second = machine.bus(size * stride, stride),
                            .wire = make_wire(device),
                            .transfers = transfers});
  };
  return shard::make_mesh(group(shape.ranks(), 1), shape, device, group);
}

at::Device first_device(const config::RunConfig& config) {
  const at::Device device = train::devices_of(config, {}).front();
  if (device.is_cuda()) use_gpu(device.index());
  return device;
}

}  // namespace

double RehearsalResult::hidden() const {
  if (on_the_wires == 0) return 1;
  return std::clamp(1 - (bench.mean_seconds() - instant.mean_seconds()) / on_the_wires, 0.0, 1.0);
}

RehearsalResult rehearse(const plan::Plan& plan, const plan::Inputs& in, std::int64_t updates) {
  reset_peak_gpu_memory();
  const auto transfers = std::make_shared<comm::Transfers>();
  transfers->take_time = false;
  const plan::Machine machine = plan::machine_of_ranks(in.machine, plan.resolved);
  Bench bench(plan, in, rehearsed_mesh(machine, plan.mesh, first_device(plan.resolved), transfers));
  RehearsalResult result;
  bench.measure(updates);  // so that neither of the measurements below is the first to see these batches
  result.instant = bench.measure(updates);
  transfers->take_time = true;
  transfers->seconds = 0;
  result.bench = bench.measure(updates);
  result.on_the_wires = transfers->seconds / static_cast<double>(updates);
  return result;
}

}  // namespace dpo::run
