#include "checkpoint/read_tensors.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>

namespace dpo::checkpoint {
namespace {

constexpr std::size_t kThreads = 4;  // also on fewer cores: some wait for the disk while others copy

// Bytes that one thread takes at once.
constexpr std::uint64_t kPieceBytes = 8u << 20;
// Elements that are converted at once: LibTorch does fewer than 32,768 without threads of its own, and they
// stay in the processor's cache. For another device a larger piece pays.
constexpr std::int64_t kConvertedOnCpu = 32'000, kConvertedOnDevice = 4 << 20;

struct Piece {
  const Destination* to = nullptr;
  std::int64_t begin = 0, end = 0;  // elements
};

// Elements [begin, end) of a stored tensor that is contiguous.
at::Tensor read_elements(const WeightFiles& files, const StoredTensor& tensor, std::int64_t begin,
                         std::int64_t end) {
  at::Tensor elements = at::empty({end - begin}, at::TensorOptions().dtype(scalar_type_of(tensor.dtype)));
  files.read(tensor, static_cast<std::uint64_t>(begin) * size_of(tensor.dtype),
             {static_cast<std::byte*>(elements.mutable_data_ptr()), elements.nbytes()});
  return elements;
}

// A stored tensor whose elements do not follow each other: what its strides reach is read whole.
at::Tensor read_strided(const WeightFiles& files, const StoredTensor& tensor) {
  const auto count = static_cast<std::int64_t>(tensor.size / size_of(tensor.dtype));
  return read_elements(files, tensor, 0, count).as_strided(tensor.shape, tensor.strides);
}

void read_piece(const WeightFiles& files, const Piece& piece) {
  const StoredTensor& source = *piece.to->source;
  if (!source.is_contiguous()) {
    at::Tensor(piece.to->tensor).copy_(read_strided(files, source));
    return;
  }
  const at::Tensor flat = piece.to->tensor.view({-1});
  const std::uint64_t from = static_cast<std::uint64_t>(piece.begin) * size_of(source.dtype);
  const std::uint64_t size = static_cast<std::uint64_t>(piece.end - piece.begin) * size_of(source.dtype);
  files.announce(source, from, size);
  if (flat.is_cpu() && flat.scalar_type() == scalar_type_of(source.dtype)) {
    files.read(source, from, {static_cast<std::byte*>(flat.mutable_data_ptr()) + from, size});
    return;
  }
  const std::int64_t step = flat.is_cpu() ? kConvertedOnCpu : kConvertedOnDevice;
  for (std::int64_t begin = piece.begin; begin < piece.end; begin += step) {
    const std::int64_t end = std::min(begin + step, piece.end);
    flat.narrow(0, begin, end - begin).copy_(read_elements(files, source, begin, end));
  }
}

std::vector<Piece> pieces_of(const std::vector<Destination>& destinations) {
  std::vector<Piece> pieces;
  for (const Destination& to : destinations) {
    const std::int64_t count = to.tensor.numel();
    const auto step = to.source->is_contiguous()
                          ? static_cast<std::int64_t>(kPieceBytes / size_of(to.source->dtype))
                          : std::max<std::int64_t>(count, 1);
    for (std::int64_t begin = 0; begin < count; begin += step)
      pieces.push_back({&to, begin, std::min(begin + step, count)});
  }
  return pieces;
}

// Adds up what the threads did.
class Meter {
 public:
  Meter(const Progress& progress, std::int64_t all) : progress_(progress), all_(all) {}
  void add(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (progress_) progress_(done_, all_);
  }

 private:
  const Progress& progress_;
  const std::int64_t all_;
  std::int64_t done_ = 0;
  std::mutex mutex_;
};

void read_pieces(const WeightFiles& files, const std::vector<Piece>& pieces, Meter& meter) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < pieces.size(); i = next++) {
        read_piece(files, pieces[i]);
        const auto size = static_cast<std::int64_t>(size_of(pieces[i].to->source->dtype));
        meter.add((pieces[i].end - pieces[i].begin) * size);
      }
    } catch (...) {
      next = pieces.size();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(kThreads, pieces.size()); ++i) threads.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

at::ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64: return at::kDouble;
    case Dtype::F32: return at::kFloat;
    case Dtype::F16: return at::kHalf;
    case Dtype::BF16: return at::kBFloat16;
    default: throw std::logic_error("not a float dtype");
  }
}

Dtype dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return Dtype::F64;
    case at::kFloat: return Dtype::F32;
    case at::kHalf: return Dtype::F16;
    case at::kBFloat16: return Dtype::BF16;
    default: throw std::logic_error("not a float dtype");
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

void read_tensors(const WeightFiles& files, std::vector<Destination> destinations, const Progress& progress) {
  std::sort(destinations.begin(), destinations.end(), [](const Destination& a, const Destination& b) {
    return std::pair(a.source->file, a.source->offset) < std::pair(b.source->file, b.source->offset);
  });
  const std::vector<Piece> pieces = pieces_of(destinations);
  std::int64_t all = 0;
  for (const Piece& piece : pieces)
    all += (piece.end - piece.begin) * static_cast<std::int64_t>(size_of(piece.to->source->dtype));
  Meter meter(progress, all);
  read_pieces(files, pieces, meter);
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
