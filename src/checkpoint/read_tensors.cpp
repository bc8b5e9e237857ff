#include "checkpoint/read_tensors.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>

#include "base/parallel.h"

namespace dpo::checkpoint {
namespace {

constexpr std::size_t kThreads = 4;  // even on fewer cores: some wait for the disk while others copy

// Bytes read by one job.
constexpr std::int64_t kJobBytes = 8 << 20;
// Elements converted at once. Below 32,768, LibTorch does not start its own threads and the elements stay in
// the cache. For another device, larger transfers are faster.
constexpr std::int64_t kConvertedOnCpu = 32'000, kConvertedOnDevice = 4 << 20;

// Walks through the ranges of a destination.
class Cursor {
 public:
  explicit Cursor(const std::vector<model::Range>& ranges) : ranges_(&ranges) {}

  // Calls work(from, size) for the next `count` elements, range by range.
  template <class Work>
  void next(std::int64_t count, const Work& work) {
    while (count > 0) {
      const model::Range& range = (*ranges_)[range_];
      const std::int64_t size = std::min(count, range.count - done_);
      if (size > 0) work(range.from + done_, size);
      count -= size;
      done_ += size;
      if (done_ == range.count) ++range_, done_ = 0;
    }
  }
  void skip(std::int64_t count) {
    next(count, [](std::int64_t, std::int64_t) {});
  }

 private:
  const std::vector<model::Range>* ranges_;
  std::size_t range_ = 0;
  std::int64_t done_ = 0;  // elements of that range already visited
};

// A unit of work for one thread.
struct Job {
  const Destination* to = nullptr;
  std::int64_t begin = 0, end = 0;  // elements of the destination's values
  Cursor ranges;                    // positioned at `begin`
  std::int64_t bytes = 0;           // bytes to read
};

// Reads elements [begin, end) of a contiguous stored tensor.
at::Tensor read_elements(const WeightFiles& files, const StoredTensor& tensor, std::int64_t begin,
                         std::int64_t end) {
  at::Tensor elements = at::empty({end - begin}, at::TensorOptions().dtype(scalar_type_of(tensor.dtype)));
  files.read(tensor, static_cast<std::uint64_t>(begin) * size_of(tensor.dtype),
             {static_cast<std::byte*>(elements.mutable_data_ptr()), elements.nbytes()});
  return elements;
}

// Reads a stored tensor that is not contiguous, including everything that its strides reach.
at::Tensor read_strided(const WeightFiles& files, const StoredTensor& tensor) {
  const auto count = static_cast<std::int64_t>(tensor.size / size_of(tensor.dtype));
  return read_elements(files, tensor, 0, count).as_strided(tensor.shape, tensor.strides);
}

// Reads the whole tensor and selects the job's elements.
void read_job_strided(const WeightFiles& files, const Job& job) {
  const at::Tensor all = read_strided(files, *job.to->source).reshape({-1});
  Cursor ranges = job.ranges;
  std::int64_t to = job.begin;
  ranges.next(job.end - job.begin, [&](std::int64_t from, std::int64_t count) {
    job.to->values.narrow(0, to, count).copy_(all.narrow(0, from, count));
    to += count;
  });
}

void read_job(const WeightFiles& files, const Job& job) {
  const StoredTensor& source = *job.to->source;
  if (!source.is_contiguous()) return read_job_strided(files, job);
  const at::Tensor& values = job.to->values;
  const std::size_t size = size_of(source.dtype);
  Cursor prefetched = job.ranges, ranges = job.ranges;
  prefetched.next(job.end - job.begin, [&](std::int64_t from, std::int64_t count) {
    files.prefetch(source, static_cast<std::uint64_t>(from) * size, static_cast<std::uint64_t>(count) * size);
  });
  const auto read_into = [&](void* memory, std::int64_t elements) {
    auto* next = static_cast<std::byte*>(memory);
    ranges.next(elements, [&](std::int64_t from, std::int64_t count) {
      const std::size_t bytes = static_cast<std::size_t>(count) * size;
      files.read(source, static_cast<std::uint64_t>(from) * size, {next, bytes});
      next += bytes;
    });
  };
  const at::ScalarType type = scalar_type_of(source.dtype);
  if (values.is_cpu() && values.scalar_type() == type)
    return read_into(values.narrow(0, job.begin, job.end - job.begin).mutable_data_ptr(),
                     job.end - job.begin);
  const std::int64_t step = values.is_cpu() ? kConvertedOnCpu : kConvertedOnDevice;
  for (std::int64_t begin = job.begin; begin < job.end; begin += step) {
    const std::int64_t count = std::min(step, job.end - begin);
    const at::Tensor elements = at::empty({count}, at::TensorOptions().dtype(type));
    read_into(elements.mutable_data_ptr(), count);
    values.narrow(0, begin, count).copy_(elements);
  }
}

std::vector<Job> jobs_of(const std::vector<Destination>& destinations) {
  std::vector<Job> jobs;
  for (const Destination& to : destinations) {
    const std::int64_t count = to.values.numel();
    const auto size = static_cast<std::int64_t>(size_of(to.source->dtype));
    if (!to.source->is_contiguous()) {
      jobs.push_back({&to, 0, count, Cursor(to.ranges), static_cast<std::int64_t>(to.source->size)});
      continue;
    }
    const std::int64_t step = kJobBytes / size;
    Cursor ranges(to.ranges);
    for (std::int64_t begin = 0; begin < count; begin += step) {
      const std::int64_t end = std::min(begin + step, count);
      jobs.push_back({&to, begin, end, ranges, (end - begin) * size});
      ranges.skip(end - begin);
    }
  }
  return jobs;
}

// Sums the progress of the threads.
class Meter {
 public:
  Meter(const ProgressCallback& progress, std::int64_t total) : progress_(progress), total_(total) {}
  void add(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (progress_) progress_(done_, total_);
  }

 private:
  const ProgressCallback& progress_;
  const std::int64_t total_;
  std::int64_t done_ = 0;
  std::mutex mutex_;
};

void read_jobs(const WeightFiles& files, const std::vector<Job>& jobs, Meter& meter) {
  const auto read = [&](std::size_t i) {
    read_job(files, jobs[i]);
    meter.add(jobs[i].bytes);
  };
  for_each_parallel(jobs.size(), read, kThreads, /*grain=*/1);
}

}  // namespace

at::ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64: return at::kDouble;
    case Dtype::F32: return at::kFloat;
    case Dtype::F16: return at::kHalf;
    case Dtype::BF16: return at::kBFloat16;
    case Dtype::U8: return at::kByte;
    default: throw std::logic_error("not a dtype of weights or optimizer state");
  }
}

Dtype dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return Dtype::F64;
    case at::kFloat: return Dtype::F32;
    case at::kHalf: return Dtype::F16;
    case at::kBFloat16: return Dtype::BF16;
    case at::kByte: return Dtype::U8;
    default: throw std::logic_error("not a dtype of weights or optimizer state");
  }
}

std::string name_of_scalar(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return "float64";
    case at::kFloat: return "float32";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    default: throw std::logic_error("not a float dtype");
  }
}

void read_tensors(const WeightFiles& files, std::vector<Destination> destinations,
                  const ProgressCallback& progress) {
  std::sort(destinations.begin(), destinations.end(), [](const Destination& a, const Destination& b) {
    return std::pair(a.source->file, a.source->offset) < std::pair(b.source->file, b.source->offset);
  });
  const std::vector<Job> jobs = jobs_of(destinations);
  std::int64_t total = 0;
  for (const Job& job : jobs) total += job.bytes;
  Meter meter(progress, total);
  read_jobs(files, jobs, meter);
}

bool are_equal(const WeightFiles& files, const StoredTensor& a, const StoredTensor& b) {
  if (a.shape != b.shape) return false;
  if (!a.is_contiguous() || !b.is_contiguous())
    return at::equal(read_strided(files, a).to(at::kDouble), read_strided(files, b).to(at::kDouble));
  const auto count = static_cast<std::int64_t>(a.size / size_of(a.dtype));
  constexpr std::int64_t kStep = 4 << 20;
  for (std::int64_t begin = 0; begin < count; begin += kStep) {
    const std::int64_t end = std::min(begin + kStep, count);
    const at::Tensor left = read_elements(files, a, begin, end), right = read_elements(files, b, begin, end);
    const bool same =
        a.dtype == b.dtype ? at::equal(left, right) : at::equal(left.to(at::kDouble), right.to(at::kDouble));
    if (!same) return false;
  }
  return true;
}

}  // namespace dpo::checkpoint
