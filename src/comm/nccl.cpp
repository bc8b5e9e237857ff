#include <chrono>
#include <exception>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "comm/bodies.h"
#include "comm/exchange.h"
#include "comm/sockets.h"

namespace dpo::comm {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using Backend = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

Backend make_backend(const Store& store, int rank, int size) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  // The watch finds ranks that are gone; the others may take their time.
  options->timeout = std::chrono::hours(24);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

// A tensor on the GPU: itself, or for one of the host a copy, which the caller gets back.
class OnGpu {
 public:
  OnGpu(const at::Tensor& tensor, at::Device gpu)
      : tensor_(tensor), near_(tensor.is_cuda() ? tensor : tensor.to(gpu)) {}

  at::Tensor& get() { return near_; }
  void give_back() const {
    const at::NoGradGuard no_grad;
    if (!tensor_.is_same(near_)) tensor_.copy_(near_);
  }

 private:
  at::Tensor tensor_, near_;
};

class Nccl : public Group {
 public:
  Nccl(Store store, int rank, int size, at::Device gpu, std::shared_ptr<Group> below)
      : store_(std::move(store)),
        backend_(make_backend(store_, rank, size)),
        gpu_(gpu),
        below_(std::move(below)) {}

  // Other ranks may wait in an exchange that a failure here has left out: then there is no orderly end.
  ~Nccl() override {
    if (std::uncaught_exceptions() > 0)
      backend_.release();
    else
      backend_->shutdown();
  }

  int rank() const override { return backend_->getRank(); }
  int size() const override { return backend_->getSize(); }

  Pending all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    OnGpu near(tensor, gpu_);
    c10d::AllreduceOptions options;
    options.reduceOp = reduction == Reduction::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
    std::vector<at::Tensor> tensors = {near.get()};
    return pending(backend_->allreduce(tensors, options), near);
  }

  Pending all_gather(const at::Tensor& into, const at::Tensor& own) override {
    OnGpu all(into, gpu_), part(own, gpu_);
    return pending(backend_->_allgather_base(all.get(), part.get()), all, part.get());
  }

  Pending reduce_scatter(const at::Tensor& own, const at::Tensor& from) override {
    OnGpu part(own, gpu_), all(from, gpu_);
    return pending(backend_->_reduce_scatter_base(part.get(), all.get()), part, all.get());
  }

  Pending broadcast(const at::Tensor& tensor, int root) override {
    OnGpu near(tensor, gpu_);
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors = {near.get()};
    return pending(backend_->broadcast(tensors, options), near);
  }

  void barrier() override {
    const at::Tensor one = at::ones({1}, at::kFloat);
    all_reduce(one, Reduction::sum).wait();  // back on the host, so the host has waited
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
    return std::make_shared<Nccl>(store, before, members, gpu_, below_);
  }

 private:
  // `kept`: what the exchange reads must not be freed before it ends.
  Pending pending(const c10::intrusive_ptr<c10d::Work>& work, const OnGpu& result,
                  const at::Tensor& kept = {}) {
    return Pending([work, result, kept] {
      work->wait();
      result.give_back();
    });
  }

  Store store_;
  Backend backend_;
  at::Device gpu_;
  std::shared_ptr<Group> below_;  // over which these ranks met; lives as long
  int splits_ = 0;
};

Store open_store(const Meeting& meeting, bool hosts) {
  c10d::TCPStoreOptions options;
  options.port = meeting.port;
  options.isServer = hosts;
  options.waitWorkers = false;
  try {
    return c10::make_intrusive<c10d::TCPStore>(meeting.address, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw UserError(fmt::format(
        "the ranks of this run cannot meet at {}:{} (MASTER_ADDR and MASTER_PORT, or fsdp_port): {}",
        meeting.address, meeting.port, text.substr(0, text.find('\n'))));
  }
}

std::shared_ptr<Group> connected_group(const Store& store, int rank, int size, int gpu,
                                       std::shared_ptr<Group> below) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(gpu));
  const auto all =
      std::make_shared<Nccl>(c10::make_intrusive<c10d::PrefixStore>("dpo", store), rank, size,
                             at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu)), std::move(below));
  all->barrier();  // what keeps them from talking is said now
  return all;
}

}  // namespace

bool has_nccl() { return true; }

std::shared_ptr<Group> nccl_group(const Meeting& meeting, int rank, int size, int gpu) {
  const Store store = open_store(meeting, rank == 0 && !meeting.hosted);
  return connected_group(
      c10::make_intrusive<c10d::PrefixStore>(fmt::format("attempt{}", meeting.attempt), store), rank, size,
      gpu, nullptr);
}

std::shared_ptr<Group> nccl_group(const World& connected, int gpu) {
  Group& all = *connected.all;
  const bool hosts = all.rank() == 0;
  Meeting meeting;
  Store store;
  if (hosts) {
    // One machine needs no network.
    meeting.address = connected.local_size == all.size() ? "127.0.0.1" : own_addresses().front();
    meeting.port = open_door(std::nullopt).port;
    store = open_store(meeting, hosts);
  }
  meeting.address = broadcast_text(all, meeting.address, 0);
  meeting.port = static_cast<std::uint16_t>(std::stoi(broadcast_text(all, std::to_string(meeting.port), 0)));
  if (!hosts) store = open_store(meeting, hosts);
  return connected_group(store, all.rank(), all.size(), gpu, connected.all);
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
