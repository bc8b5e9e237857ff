#include "checkpoint/quantized.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/number_formats.h"
#include "checkpoint/formats/quant_state.h"
#include "ops/quantized_formats.h"

namespace dpo::checkpoint {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__", kWeight = "weight", kRowScales = "SCB";

std::int64_t parts_of(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// Views a tensor as bytes, because codes may be stored in another dtype such as bfloat16
// (bnb_4bit_quant_storage).
StoredTensor as_bytes(StoredTensor tensor) {
  tensor.dtype = Dtype::U8;
  tensor.shape = {static_cast<std::int64_t>(tensor.size)};
  tensor.strides = {1};
  return tensor;
}

class Finder {
 public:
  explicit Finder(const WeightFiles& files) : files_(files) {
    for (std::size_t i = 0; i < files.tensors().size(); ++i) numbers_.emplace(files.tensors()[i].name, i);
  }

  StoredModel run() {
    for (const StoredTensor& tensor : files_.tensors()) {
      if (const std::size_t at = tensor.name.rfind(kState); at != std::string::npos)
        collect([&] { add_nf4(tensor, tensor.name.substr(0, at)); });
      else if (tensor.name.ends_with(fmt::format(".{}", kRowScales)))
        collect([&] { add_int8(tensor.name.substr(0, tensor.name.size() - kRowScales.size())); });
    }
    if (!problems_.empty()) throw UserError(problems_);
    StoredModel stored;
    for (const StoredTensor& tensor : files_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      stored.tensors.push_back(tensor);
      const auto found = quantized_.find(tensor.name);
      if (found == quantized_.end()) continue;
      // The matcher sees the matrix as float32.
      stored.tensors.back().shape = found->second.shape;
      stored.tensors.back().dtype = Dtype::F32;
      stored.quantized.emplace(stored.tensors.size() - 1, std::move(found->second));
    }
    return stored;
  }

 private:
  template <class Work>
  void collect(const Work& work) {
    constexpr std::size_t kMost = 20;
    if (problems_.size() >= kMost) return;
    try {
      work();
    } catch (const UserError& error) {
      problems_.insert(problems_.end(), error.problems().begin(), error.problems().end());
    }
  }

  [[noreturn]] void fail(const std::string& tensor, const std::string& what) const {
    throw UserError(fmt::format("{}: tensor '{}' {}", files_.origin().string(), tensor, what));
  }

  const StoredTensor* find(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? nullptr : &files_.tensors()[found->second];
  }

  // Returns the tensor if it has this dtype and number of elements, else nullptr.
  const StoredTensor* take_if(const std::string& name, Dtype dtype, std::int64_t count) {
    const StoredTensor* tensor = find(name);
    if (!tensor) return nullptr;
    used_.insert(name);
    if (tensor->dtype != dtype || !tensor->is_contiguous() ||
        tensor->size != static_cast<std::uint64_t>(count) * size_of(dtype))
      fail(name, fmt::format("is {} [{}], expected {} elements of {}", name_of(tensor->dtype),
                             fmt::join(tensor->shape, ", "), count, name_of(dtype)));
    return tensor;
  }

  const StoredTensor& take(const std::string& name, Dtype dtype, std::int64_t count) {
    const StoredTensor* tensor = take_if(name, dtype, count);
    if (!tensor) fail(name, "is missing: the weights beside it are quantized");
    return *tensor;
  }

  std::string bytes_in(const StoredTensor& tensor) const {
    constexpr std::uint64_t kMost = 1 << 16;
    if (tensor.size > kMost || !tensor.is_contiguous())
      fail(tensor.name, fmt::format("has {} bytes, expected a few", tensor.size));
    std::string bytes(tensor.size, '\0');
    files_.read(tensor, 0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

  std::vector<float> floats_of(const std::string& name, std::int64_t count) {
    const StoredTensor& tensor = take(name, Dtype::F32, count);
    std::vector<float> values(static_cast<std::size_t>(count));
    files_.read(tensor, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }

  void add_nf4(const StoredTensor& state, const std::string& weight) {
    constexpr ops::Nf4Levels kLevels;
    used_.insert(state.name);
    const QuantState read = parse_quant_state(
        bytes_in(state), fmt::format("{}: tensor '{}'", files_.origin().string(), state.name));
    const std::int64_t count = read.shape[0] * read.shape[1], blocks = parts_of(count, kNf4Block);
    QuantizedTensor made{ops::QuantizedDtype::nf4, read.shape, codes_of(weight, parts_of(count, 2)), {}};
    if (!std::ranges::equal(floats_of(weight + ".quant_map", 16), kLevels.values))
      fail(weight + ".quant_map", "has other levels than nf4; use the model that it was made from");
    made.scales = take(weight + ".absmax", read.offset ? Dtype::U8 : Dtype::F32, blocks);
    if (read.offset)
      made.nested = {take(weight + ".nested_absmax", Dtype::F32, parts_of(blocks, kNestedBlock)),
                     floats_of(weight + ".nested_quant_map", 256), *read.offset};
    quantized_.emplace(weight, std::move(made));
  }

  // `module` ends with a dot.
  void add_int8(const std::string& module) {
    const std::string weight = fmt::format("{}{}", module, kWeight);
    const StoredTensor* codes = find(weight);
    if (!codes || codes->dtype != Dtype::I8 || codes->shape.size() != 2)
      fail(fmt::format("{}{}", module, kRowScales),
           fmt::format("has scales for '{}', which is not a matrix of I8", weight));
    const std::string format = module + "weight_format";
    if (const StoredTensor* stored = take_if(format, Dtype::U8, 1); stored && bytes_in(*stored)[0] != 0)
      fail(format, fmt::format("is {}, expected 0 (rows); save the model with a newer bitsandbytes",
                               static_cast<unsigned char>(bytes_in(*stored)[0])));
    const std::int64_t rows = codes->shape[0];
    quantized_.emplace(
        weight,
        QuantizedTensor{ops::QuantizedDtype::int8, codes->shape, codes_of(weight, rows * codes->shape[1]),
                        take(fmt::format("{}{}", module, kRowScales), Dtype::F32, rows)});
  }

  StoredTensor codes_of(const std::string& weight, std::int64_t bytes) const {
    const StoredTensor* codes = find(weight);
    if (!codes) fail(weight, "is missing: the files have its scales");
    if (!codes->is_contiguous() || codes->size != static_cast<std::uint64_t>(bytes))
      fail(weight, fmt::format("has {} bytes, expected {} of codes", codes->size, bytes));
    return as_bytes(*codes);
  }

  const WeightFiles& files_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::unordered_map<std::string, QuantizedTensor> quantized_;  // by the name of the weight
  std::unordered_set<std::string> used_;  // names of tensors that belong to a quantized matrix
  std::vector<std::string> problems_;
};

Destination whole(const StoredTensor& source, const at::Tensor& values) {
  return {&source, values, {{0, values.numel()}}};
}

at::Tensor room_for(const StoredTensor& tensor, at::Device device) {
  const auto count = static_cast<std::int64_t>(tensor.size / size_of(tensor.dtype));
  return at::empty({count}, at::TensorOptions().dtype(scalar_type_of(tensor.dtype)).device(device));
}

// Computes scales with the file's map, because the last bits of a map depend on the machine that computed it.
at::Tensor mapped(const at::Tensor& codes, const at::Tensor& nested, const QuantizedTensor::Nested& from) {
  const at::Tensor map = at::tensor(from.map, at::kFloat).to(codes.device());
  const at::Tensor factors = nested.repeat_interleave(kNestedBlock).narrow(0, 0, codes.numel());
  return (map.index_select(0, codes.to(at::kInt)) * factors).add_(from.offset);
}

}  // namespace

std::int64_t QuantizedTensor::bytes() const {
  return static_cast<std::int64_t>(codes.size + scales.size + (nested ? nested->scales.size : 0));
}

StoredModel find_quantized(const WeightFiles& files) { return Finder(files).run(); }

QuantizedRead::QuantizedRead(const QuantizedTensor& from, at::Device device)
    : from_(&from), codes_(room_for(from.codes, device)), scales_(room_for(from.scales, device)) {
  if (from.nested) nested_ = room_for(from.nested->scales, device);
}

void QuantizedRead::add_to(std::vector<Destination>& destinations) const {
  destinations.push_back(whole(from_->codes, codes_));
  destinations.push_back(whole(from_->scales, scales_));
  if (from_->nested) destinations.push_back(whole(from_->nested->scales, nested_));
}

ops::QuantizedMatrix QuantizedRead::matrix() const {
  constexpr ops::DynamicMap kMap;
  if (from_->dtype == ops::QuantizedDtype::int8) return {from_->dtype, codes_, scales_ * (1 / 127.0F)};
  if (!from_->nested) return {from_->dtype, codes_, scales_};
  if (!std::ranges::equal(from_->nested->map, kMap.values))
    return {from_->dtype, codes_, mapped(scales_, nested_, *from_->nested)};
  return {from_->dtype, codes_, scales_, nested_, from_->nested->offset};
}

}  // namespace dpo::checkpoint
