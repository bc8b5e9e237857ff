#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "comm/backends.h"
#include "comm/sockets.h"

namespace dpo::comm {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using Backend = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

// The timeout ends operations that all ranks have begun and that hang (see nccl_timeout). Use barrier() to
// wait for a rank that reads, downloads or tokenizes for an hour. The streams have a high priority: a
// collective that is ready takes the next free multiprocessors, instead of waiting until a kernel that
// computes leaves some.
Backend make_backend(const Store& store, int rank, int size, std::chrono::milliseconds timeout) {
  const auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

// Holds a tensor on the GPU: the tensor itself, or a copy of a host tensor.
class GpuCopy {
 public:
  GpuCopy(const at::Tensor& tensor, at::Device gpu)
      : tensor_(tensor), on_gpu_(tensor.is_cuda() ? tensor : tensor.to(gpu)) {}

  at::Tensor& get() { return on_gpu_; }
  void copy_back() const {
    const at::NoGradGuard no_grad;
    if (!tensor_.is_same(on_gpu_)) tensor_.copy_(on_gpu_);
  }

 private:
  at::Tensor tensor_, on_gpu_;
};

class NcclGroup : public Group {
 public:
  NcclGroup(Store store, int rank, int size, const NcclSettings& settings, std::shared_ptr<Group> bootstrap)
      : store_(std::move(store)),
        backend_(make_backend(store_, rank, size, settings.timeout)),
        settings_(settings),
        gpu_(at::kCUDA, static_cast<c10::DeviceIndex>(settings.gpu)),
        bootstrap_(std::move(bootstrap)) {}

  // Skips an orderly shutdown after a failure, which would hang because other ranks may be stuck in a
  // collective.
  ~NcclGroup() override {
    if (std::uncaught_exceptions() > 0)
      backend_.release();
    else
      backend_->shutdown();
  }

  int rank() const override { return backend_->getRank(); }
  int size() const override { return backend_->getSize(); }

  Work all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    GpuCopy copy(tensor, gpu_);
    c10d::AllreduceOptions options;
    options.reduceOp = reduction == Reduction::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
    std::vector<at::Tensor> tensors = {copy.get()};
    return wrap(backend_->allreduce(tensors, options), copy);
  }

  Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    GpuCopy all(into, gpu_), part(own, gpu_);
    return wrap(backend_->_allgather_base(all.get(), part.get()), all, part.get());
  }

  Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) override {
    GpuCopy part(own, gpu_), all(from, gpu_);
    return wrap(backend_->_reduce_scatter_base(part.get(), all.get()), part, all.get());
  }

  Work broadcast(const at::Tensor& tensor, int root) override {
    GpuCopy copy(tensor, gpu_);
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors = {copy.get()};
    return wrap(backend_->broadcast(tensors, options), copy);
  }

  // Waits for the other ranks over the store first, which may take hours. The timeout of NCCL's operation
  // begins only when all ranks have arrived.
  void barrier() override {
    wait_for_all_over_store();
    const at::Tensor one = at::ones({1}, at::kFloat);
    all_reduce(one, Reduction::sum).wait();  // a host tensor makes the host wait
  }

  std::shared_ptr<Group> split(int colour) override {
    const at::Tensor colours = at::empty({size()}, at::kLong);
    all_gather(colours, at::full({1}, colour, at::kLong)).wait();
    int before = 0, members = 0;
    for (int other = 0; other < size(); ++other) {
      if (colours[other].item<std::int64_t>() != colour) continue;
      ++members;
      before += other < rank() ? 1 : 0;
    }
    const auto store =
        c10::make_intrusive<c10d::PrefixStore>(fmt::format("split{}/{}", splits_++, colour), store_);
    return std::make_shared<NcclGroup>(store, before, members, settings_, bootstrap_);
  }

 private:
  // Polls the store, because a blocking call would keep NCCL's own thread from using it.
  void wait_for_all_over_store() {
    using std::chrono::milliseconds;
    constexpr milliseconds kFirst(1), kLongest(200);
    const std::string key = fmt::format("dpo_barrier{}", barriers_++);
    std::int64_t arrived = store_->add(key, 1);
    for (milliseconds pause = kFirst; arrived < size(); pause = std::min(2 * pause, kLongest)) {
      std::this_thread::sleep_for(pause);
      arrived = store_->add(key, 0);
    }
  }

  // `kept` is a tensor that the operation reads, which must not be freed before it ends.
  Work wrap(const c10::intrusive_ptr<c10d::Work>& work, const GpuCopy& result, const at::Tensor& kept = {}) {
    return Work([work, result, kept] {
      work->wait();
      result.copy_back();
    });
  }

  Store store_;
  Backend backend_;
  NcclSettings settings_;
  at::Device gpu_;
  std::shared_ptr<Group> bootstrap_;  // the group that connected the ranks, kept alive by this one
  int splits_ = 0;
  std::int64_t barriers_ = 0;
};

// `hosts` is true if this process runs the store; the others connect to it. The store has no password, so if
// all ranks are on this machine, it accepts no connection from others.
Store open_store(const Rendezvous& rendezvous, bool hosts) {
  c10d::TCPStoreOptions options;
  options.port = rendezvous.port;
  options.isServer = hosts;
  options.waitWorkers = false;
  if (hosts && rendezvous.address == kThisMachine)
    options.masterListenFd = listen_on(rendezvous.port, Reach::this_machine).socket.release();
  try {
    return c10::make_intrusive<c10d::TCPStore>(rendezvous.address, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw UserError(
        fmt::format("cannot connect the ranks at {}:{} (MASTER_ADDR and MASTER_PORT, or fsdp_port): {}",
                    rendezvous.address, rendezvous.port, text.substr(0, text.find('\n'))));
  }
}

std::shared_ptr<Group> connected_group(const Store& store, int rank, int size, const NcclSettings& settings,
                                       std::shared_ptr<Group> bootstrap) {
  ::setenv("NCCL_ALGO", kNcclAlgorithms, /*overwrite=*/0);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(settings.gpu));
  const auto all = std::make_shared<NcclGroup>(c10::make_intrusive<c10d::PrefixStore>("dpo", store), rank,
                                               size, settings, std::move(bootstrap));
  all->barrier();  // reports connection problems now
  return all;
}

}  // namespace

bool has_nccl() { return true; }

std::shared_ptr<Group> nccl_group(const Rendezvous& rendezvous, int rank, int size,
                                  const NcclSettings& settings) {
  const Store store = open_store(rendezvous, rank == 0 && !rendezvous.hosted);
  return connected_group(
      c10::make_intrusive<c10d::PrefixStore>(fmt::format("attempt{}", rendezvous.attempt), store), rank, size,
      settings, nullptr);
}

std::shared_ptr<Group> nccl_group(const World& connected, const NcclSettings& settings) {
  Group& all = *connected.all;
  constexpr std::chrono::seconds kPatience(5);
  const bool hosts = all.rank() == 0;
  const bool one_machine = connected.local_size == all.size();  // then the ranks need no network
  Rendezvous rendezvous{.address = kThisMachine};
  Store store;
  if (hosts) {
    rendezvous.port = listen_on(std::nullopt).port;
    if (!one_machine) rendezvous.address = own_addresses().front();
    store = open_store(rendezvous, hosts);
  }
  rendezvous.port =
      static_cast<std::uint16_t>(std::stoi(broadcast_text(all, std::to_string(rendezvous.port), 0)));
  std::vector<std::string> own = own_addresses();
  if (!one_machine && own.size() > 1) own.pop_back();  // the last one is the loopback
  std::istringstream addresses(broadcast_text(all, fmt::format("{}", fmt::join(own, " ")), 0));
  if (!hosts) {
    if (!one_machine)
      rendezvous.address =
          find_reachable({std::istream_iterator<std::string>(addresses), {}}, rendezvous.port, kPatience);
    store = open_store(rendezvous, hosts);
  }
  return connected_group(store, all.rank(), all.size(), settings, connected.all);
}

std::string gpu_identity(int gpu) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, gpu) != cudaSuccess) return "";
  std::string name;
  for (const char byte : properties.uuid.bytes)
    name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return name;
}

}  // namespace dpo::comm
