#include "checkpoint/formats/torch_archive.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/formats/zip.h"

namespace dpo::checkpoint {
namespace {

constexpr std::string_view kPickle = "data.pkl";

bool is_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
}

// Returns the number of elements from the first to the last that the strides reach, or nullopt on overflow or
// a negative stride.
std::optional<std::uint64_t> elements_reached(const PickledTensor& tensor) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const std::int64_t size = tensor.shape[i], stride = tensor.strides[i];
    if (size < 0 || stride < 0) return std::nullopt;
    if (size == 0) return 0;
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(size - 1), static_cast<std::uint64_t>(stride),
                               &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  std::uint64_t count = 0;
  if (__builtin_add_overflow(last, std::uint64_t{1}, &count)) return std::nullopt;
  return count;
}

const char* storage_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64: return "DoubleStorage";
    case Dtype::F32: return "FloatStorage";
    case Dtype::F16: return "HalfStorage";
    case Dtype::BF16: return "BFloat16Storage";
    default: throw std::logic_error("weights must be floats");
  }
}

// The functions below encode opcodes of pickle protocol 2.
std::string little_endian(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}
std::string text(const std::string& value) { return "X" + little_endian(value.size(), 4) + value; }
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string number(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value <= INT32_MAX ? "J" + little_endian(bits, 4) : "\x8a\x08" + little_endian(bits, 8);
}
std::string tuple(const std::vector<std::int64_t>& values) {
  std::string items = "(";
  for (const std::int64_t value : values) items += number(value);
  return items + "t";
}
const std::string kEmptyOrderedDict = global("collections", "OrderedDict") + ")R";

// Encodes torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks).
std::string tensor(const TensorToWrite& source, std::size_t key) {
  std::vector<std::int64_t> strides(source.shape.size());
  std::int64_t count = 1;
  for (std::size_t i = source.shape.size(); i-- > 0;) {
    strides[i] = std::max<std::int64_t>(count, 1);
    count *= source.shape[i];
  }
  return global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") +
         global("torch", storage_type(source.dtype)) + text(std::to_string(key)) + text("cpu") +
         number(count) + "tQ" + number(0) + tuple(source.shape) + tuple(strides) + "\x89" +
         kEmptyOrderedDict + "tR";
}

std::string pickle_of(const std::vector<TensorToWrite>& tensors,
                      const std::vector<std::pair<std::string, std::string>>& shared) {
  std::string state = kEmptyOrderedDict + "(";
  for (std::size_t i = 0; i < tensors.size(); ++i) state += text(tensors[i].name) + tensor(tensors[i], i);
  for (const auto& [name, other] : shared) {
    const auto at = std::find_if(tensors.begin(), tensors.end(),
                                 [&](const TensorToWrite& source) { return source.name == other; });
    state += text(name) + tensor(*at, static_cast<std::size_t>(at - tensors.begin()));
  }
  state += "u";
  return "\x80\x02}(" + text("step_idx") + number(0) + text("state") + state + text("metrics") + "}u.";
}

}  // namespace

TorchArchive::TorchArchive(const std::filesystem::path& path) : path_(path), file_(path, "weights") {
  const std::string origin = path.string();
  if (!is_zip(file_.bytes()))
    throw UserError(
        fmt::format("{}: not a torch.save archive (or one from before PyTorch 1.6); load it with Python and "
                    "save it again",
                    origin));
  files_ = read_stored_zip(file_.bytes(), origin);
  for (const auto& [name, bytes] : files_)
    if (name.ends_with(kPickle)) prefix_ = name.substr(0, name.size() - kPickle.size());
  const auto pickle = files_.find(prefix_ + std::string(kPickle));
  if (pickle == files_.end()) throw UserError(fmt::format("{}: the archive has no {}", origin, kPickle));
  tensors_ = read_state_dict(pickle->second, origin);
  for (const PickledTensor& tensor : tensors_) bytes_of(tensor);
}

std::span<const std::byte> TorchArchive::bytes_of(const PickledTensor& tensor) const {
  const auto fail = [&](const std::string& why) {
    throw UserError(fmt::format("{}: tensor '{}' {}", path_.string(), tensor.name, why));
  };
  const auto storage = files_.find(prefix_ + "data/" + tensor.storage);
  if (storage == files_.end())
    fail(fmt::format("is in the storage '{}', which is missing from the archive", tensor.storage));
  const std::uint64_t available = storage->second.size() / size_of(tensor.dtype);
  const auto reached = elements_reached(tensor);
  if (!reached || tensor.offset < 0 || static_cast<std::uint64_t>(tensor.offset) > available ||
      *reached > available - static_cast<std::uint64_t>(tensor.offset))
    fail(fmt::format("reaches beyond its storage of {} elements", available));
  return storage->second.subspan(static_cast<std::uint64_t>(tensor.offset) * size_of(tensor.dtype),
                                 *reached * size_of(tensor.dtype));
}

std::uint64_t TorchArchive::offset_of(const PickledTensor& tensor) const {
  return static_cast<std::uint64_t>(bytes_of(tensor).data() - file_.bytes().data());
}

void write_policy(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                  const std::vector<std::pair<std::string, std::string>>& shared) {
  AtomicFile file(path);
  ZipWriter zip(file);
  const std::string folder = path.stem().string() + "/";
  zip.add(folder + "data.pkl", pickle_of(tensors, shared));
  zip.add(folder + "byteorder", "little");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    zip.add(folder + "data/" + std::to_string(i), tensors[i].bytes());
  zip.add(folder + "version", "3\n");
  zip.finish();
  file.commit();
}

}  // namespace dpo::checkpoint
