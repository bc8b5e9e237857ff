#include "checkpoint/formats/policy_writer.h"

#include <algorithm>
#include <stdexcept>

#include "checkpoint/formats/zip_writer.h"

namespace dpo::checkpoint {
namespace {

const char* storage_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64: return "DoubleStorage";
    case Dtype::F32: return "FloatStorage";
    case Dtype::F16: return "HalfStorage";
    case Dtype::BF16: return "BFloat16Storage";
    default: throw std::logic_error("weights are floats");
  }
}

// Opcodes of pickle's protocol 2.
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

// torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks)
std::string tensor(const Source& source, std::size_t key) {
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

std::string pickle_of(const std::vector<Source>& tensors,
                      const std::vector<std::pair<std::string, std::string>>& shared) {
  std::string state = kEmptyOrderedDict + "(";
  for (std::size_t i = 0; i < tensors.size(); ++i) state += text(tensors[i].name) + tensor(tensors[i], i);
  for (const auto& [name, other] : shared) {
    const auto at = std::find_if(tensors.begin(), tensors.end(),
                                 [&](const Source& source) { return source.name == other; });
    state += text(name) + tensor(*at, static_cast<std::size_t>(at - tensors.begin()));
  }
  state += "u";
  return "\x80\x02}(" + text("step_idx") + number(0) + text("state") + state + text("metrics") + "}u.";
}

}  // namespace

void write_policy(const std::filesystem::path& path, const std::vector<Source>& tensors,
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
