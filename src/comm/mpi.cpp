#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <mpi.h>

#include "comm/backends.h"
#include "comm/combine.h"

namespace dpo::comm {
namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  throw std::runtime_error(std::string(call) + ": " + text);
}

// An MPI datatype of `bytes` bytes, with elements `stride` bytes apart.
class StridedType {
 public:
  StridedType(std::size_t bytes, std::size_t stride) {
    MPI_Datatype run;
    check(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &run), "MPI_Type_contiguous");
    check(MPI_Type_create_resized(run, 0, static_cast<MPI_Aint>(stride), &type_), "MPI_Type_create_resized");
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
    MPI_Type_free(&run);
  }
  ~StridedType() { MPI_Type_free(&type_); }
  StridedType(const StridedType&) = delete;
  StridedType& operator=(const StridedType&) = delete;

  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_;
};

// The only thread of the process that calls MPI, from MPI_Init to MPI_Finalize. Runs one job at a time.
class MpiThread {
 public:
  MpiThread() : thread_([this] { work(); }) {
    const std::shared_future<void> started = post([] {
      // A waiting rank yields its core to ranks that compute.
      ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*overwrite=*/0);
      int provided = MPI_THREAD_SINGLE;
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
      if (provided < MPI_THREAD_FUNNELED) throw std::runtime_error("this MPI does not support threads");
      check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    });
    try {
      started.get();
    } catch (...) {
      close();
      throw;
    }
  }

  // Skips MPI_Finalize after a failure of this rank, because it needs all ranks and might wait forever.
  ~MpiThread() {
    if (std::uncaught_exceptions() == 0) post([] { MPI_Finalize(); });
    close();
  }

  std::shared_future<void> post(std::function<void()> job) {
    std::packaged_task<void()> task(std::move(job));
    std::shared_future<void> done = task.get_future().share();
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(task));
    }
    changed_.notify_one();
    return done;
  }

  // Returns memory for jobs. It is kept because allocating it costs as much as filling it.
  char* buffer(std::size_t bytes) {
    if (buffer_.size() < bytes) buffer_.resize(bytes);
    return buffer_.data();
  }

 private:
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      std::packaged_task<void()> task = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      task();
      task = {};  // frees the tensors that it holds
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> jobs_;
  bool closing_ = false;
  std::vector<char> buffer_;
  std::thread thread_;
};

// Holds a tensor in host memory: the tensor itself, or a copy of a GPU tensor as computed by its stream so
// far.
class HostCopy {
 public:
  HostCopy(const at::Tensor& tensor, bool with_content) : tensor_(tensor), host_(tensor) {
    if (tensor.device().is_cpu()) return;
    host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
    if (with_content) fill(host_, tensor);
  }

  // Copies `tensor` to `host`, which may be part of get().
  void fill(const at::Tensor& host, const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    host.copy_(tensor, /*non_blocking=*/true);
    if (tensor.device().is_cpu()) return;
    copied_ = std::make_shared<c10::Event>(tensor.device().type());
    copied_->record(c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
  }

  // Must be called in the MPI thread before the copy is read.
  void wait() const {
    if (copied_) copied_->synchronize();
  }

  // Must be called in the calling thread after the operation.
  void copy_back() const {
    const at::NoGradGuard no_grad;
    if (!tensor_.is_same(host_)) tensor_.copy_(host_, /*non_blocking=*/true);
  }

  const at::Tensor& get() const { return host_; }

 private:
  at::Tensor tensor_, host_;
  std::shared_ptr<c10::Event> copied_;
};

char* bytes_of(const at::Tensor& tensor) { return static_cast<char*>(tensor.mutable_data_ptr()); }

// Implements a group's jobs, which run in the MPI thread. Jobs hold it by value, because they may outlive the
// group.
class Communicator {
 public:
  Communicator(MpiThread& thread, MPI_Comm comm, const MpiLimits& limits)
      : thread_(&thread), comm_(comm), limits_(limits) {
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Reduces without MPI_Allreduce, whose summation order may differ between ranks and which has no 16-bit
  // floats. Each rank sums its part; data too small to divide is summed by all ranks. The order is the same
  // in both cases.
  void reduce(const at::Tensor& tensor, Reduction reduction) const {
    const std::size_t element = tensor.element_size(), ranks = static_cast<std::size_t>(size_);
    const auto count = static_cast<std::size_t>(tensor.numel());
    const std::size_t part = count * element * ranks <= kSmall ? 0 : count / ranks;
    char* data = bytes_of(tensor);
    if (part > 0) {
      reduce_parts(tensor, data, data + static_cast<std::size_t>(rank_) * part * element, part, reduction);
      gather(data, part * element);
    }
    const std::size_t divided = part * ranks;
    if (count > divided) reduce_whole(tensor, data + divided * element, count - divided, reduction);
  }

  // Gathers parts of `bytes` bytes. This rank's part is already in its position in `into`.
  void gather(char* into, std::size_t bytes) const {
    for_pieces(bytes, [&](std::size_t start, std::size_t width) {
      const StridedType parts(width, bytes);
      check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, into + start, 1, parts.get(), comm_),
            "MPI_Allgather");
    });
  }

  // Writes this rank's part, of `count` elements, of the sum of all ranks' `from` to `own`.
  void reduce_parts(const at::Tensor& like, const char* from, char* own, std::size_t count,
                    Reduction reduction) const {
    const std::size_t element = like.element_size(), ranks = static_cast<std::size_t>(size_);
    const std::size_t most =
        std::max<std::size_t>(1, std::min(limits_.buffer_bytes / ranks, limits_.piece_bytes) / element);
    for (std::size_t start = 0; start < count; start += most) {
      const std::size_t width = std::min(most, count - start), bytes = width * element;
      char* received = thread_->buffer(bytes * ranks);
      const StridedType parts(bytes, count * element);
      check(MPI_Alltoall(from + start * element, 1, parts.get(), received, static_cast<int>(bytes), MPI_BYTE,
                         comm_),
            "MPI_Alltoall");
      combine_received(like, received, own + start * element, width, reduction);
    }
  }

  void broadcast(const at::Tensor& tensor, int root) const {
    for_pieces(tensor.nbytes(), [&](std::size_t start, std::size_t bytes) {
      check(MPI_Bcast(bytes_of(tensor) + start, static_cast<int>(bytes), MPI_BYTE, root, comm_), "MPI_Bcast");
    });
  }

  void barrier() const { check(MPI_Barrier(comm_), "MPI_Barrier"); }

  MPI_Comm split(int colour) const {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, colour, rank_, &part), "MPI_Comm_split");
    return part;
  }

 private:
  static constexpr std::size_t kSmall = 64 << 10;  // bytes; below this, latency costs more than transfer

  template <typename Function>
  void for_pieces(std::size_t bytes, Function work) const {
    for (std::size_t start = 0; start < bytes; start += limits_.piece_bytes)
      work(start, std::min(limits_.piece_bytes, bytes - start));
  }

  void reduce_whole(const at::Tensor& like, char* data, std::size_t count, Reduction reduction) const {
    const std::size_t bytes = count * like.element_size();
    char* received = thread_->buffer(bytes * static_cast<std::size_t>(size_));
    check(MPI_Allgather(data, static_cast<int>(bytes), MPI_BYTE, received, static_cast<int>(bytes), MPI_BYTE,
                        comm_),
          "MPI_Allgather");
    combine_received(like, received, data, count, reduction);
  }

  void combine_received(const at::Tensor& like, const char* received, char* into, std::size_t count,
                        Reduction reduction) const {
    std::vector<const void*> parts;
    for (int r = 0; r < size_; ++r)
      parts.push_back(received + static_cast<std::size_t>(r) * count * like.element_size());
    combine(like.scalar_type(), reduction, into, parts, count);
  }

  MpiThread* thread_;
  MPI_Comm comm_;
  MpiLimits limits_;
  int rank_ = 0, size_ = 1;
};

class MpiGroup : public Group {
 public:
  MpiGroup(std::shared_ptr<MpiThread> thread, Communicator communicator, const MpiLimits& limits)
      : thread_(std::move(thread)), communicator_(communicator), limits_(limits) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }

  Work all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    if (size() == 1) return {};
    const HostCopy host(tensor, /*with_content=*/true);
    return submit(host, [=, comm = communicator_] { comm.reduce(host.get(), reduction); });
  }

  Work all_gather(const at::Tensor& into, const at::Tensor& own) override {
    HostCopy host(into, /*with_content=*/false);
    const std::int64_t count = own.numel();
    const at::Tensor part = host.get().view({-1}).narrow(0, rank() * count, count);
    if (part.const_data_ptr() != own.const_data_ptr()) host.fill(part, own.view({-1}));
    return submit(host, [=, comm = communicator_] { comm.gather(bytes_of(host.get()), part.nbytes()); });
  }

  Work reduce_scatter(const at::Tensor& own, const at::Tensor& from) override {
    const HostCopy result(own, /*with_content=*/false), source(from, /*with_content=*/true);
    return submit(result, [=, comm = communicator_] {
      source.wait();
      comm.reduce_parts(from, bytes_of(source.get()), bytes_of(result.get()),
                        static_cast<std::size_t>(result.get().numel()), Reduction::sum);
    });
  }

  Work broadcast(const at::Tensor& tensor, int root) override {
    const HostCopy host(tensor, /*with_content=*/rank() == root);
    return submit(host, [=, comm = communicator_] { comm.broadcast(host.get(), root); });
  }

  void barrier() override {
    thread_->post([comm = communicator_] { comm.barrier(); }).get();
  }

  std::shared_ptr<Group> split(int colour) override {
    std::optional<Communicator> part;
    thread_->post([&] { part.emplace(*thread_, communicator_.split(colour), limits_); }).get();
    return std::make_shared<MpiGroup>(thread_, *part, limits_);
  }

 private:
  Work submit(const HostCopy& host, std::function<void()> work) {
    const auto done = thread_->post([host, work = std::move(work)] {
      host.wait();
      work();
    });
    return Work([done, host] {
      done.get();
      host.copy_back();
    });
  }

  std::shared_ptr<MpiThread> thread_;
  Communicator communicator_;
  MpiLimits limits_;
};

}  // namespace

bool has_mpi() { return true; }

World mpi_world(const MpiLimits& limits) {
  const auto thread = std::make_shared<MpiThread>();
  World world;
  std::optional<Communicator> all;
  thread
      ->post([&] {
        MPI_Comm machine;
        check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
              "MPI_Comm_split_type");
        MPI_Comm_rank(machine, &world.local_rank);
        MPI_Comm_size(machine, &world.local_size);
        MPI_Comm_free(&machine);
        all.emplace(*thread, MPI_COMM_WORLD, limits);
      })
      .get();
  world.all = std::make_shared<MpiGroup>(thread, *all, limits);
  return world;
}

}  // namespace dpo::comm
