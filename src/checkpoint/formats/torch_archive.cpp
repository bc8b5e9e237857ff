#include "checkpoint/formats/torch_archive.h"

#include <cstdint>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/formats/zip.h"

namespace dpo::checkpoint {
namespace {

constexpr std::string_view kPickle = "data.pkl";

bool is_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
}

// Elements from the first to the last that the strides reach, plus one; nothing if that overflows or goes
// backwards.
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

}  // namespace

TorchArchive::TorchArchive(const std::filesystem::path& path) : path_(path), file_(path, "weights") {
  const std::string origin = path.string();
  if (!is_zip(file_.bytes()))
    throw UserError(
        fmt::format("{}: not an archive of torch.save (or one from before PyTorch 1.6); load it with Python "
                    "and save it again",
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
    fail(fmt::format("is in the storage '{}', which the archive does not have", tensor.storage));
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

}  // namespace dpo::checkpoint
