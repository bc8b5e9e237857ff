#include <array>

#include "checkpoint/formats/safetensors.h"

namespace dpo::checkpoint {
namespace {

struct DtypeFacts {
  std::string_view name;
  std::size_t size;
};

constexpr std::array<DtypeFacts, 10> kDtypes = {{{"F64", 8},
                                                 {"F32", 4},
                                                 {"F16", 2},
                                                 {"BF16", 2},
                                                 {"I64", 8},
                                                 {"I32", 4},
                                                 {"I16", 2},
                                                 {"I8", 1},
                                                 {"U8", 1},
                                                 {"BOOL", 1}}};

}  // namespace

std::string_view name_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].name; }
std::size_t size_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].size; }

std::optional<Dtype> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < kDtypes.size(); ++i)
    if (kDtypes[i].name == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

}  // namespace dpo::checkpoint
