#include "model/spec/quantization.h"

#include <algorithm>

namespace dpo::model {
namespace {

using nlohmann::json;

constexpr const char* kKey = "quantization_config";

[[noreturn]] void refuse(const ConfigReader& in, const std::string& what) {
  in.fail(
      fmt::format("'{}': {} (supported: nf4 and int8 of bitsandbytes); use the model that they were made "
                  "from",
                  kKey, what));
}

std::vector<std::string> read_skipped(const ConfigReader& in) {
  std::vector<std::string> names;
  const json* list = in.find("llm_int8_skip_modules");
  if (!list) return names;
  if (!list->is_array()) in.fail("'llm_int8_skip_modules' is not a list");
  for (const json& name : *list)
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

}  // namespace

std::string name_of(Quantization::Dtype dtype) { return dtype == Quantization::Dtype::nf4 ? "nf4" : "int8"; }

// Compares plain names as transformers does: a module, one in it, or the end of its name. Patterns are not
// read, since only the plan's memory depends on this.
bool Quantization::covers(const std::string& tensor) const {
  const std::string module = tensor.substr(0, tensor.rfind('.'));
  return std::ranges::none_of(skipped, [&](const std::string& name) {
    return module.ends_with(name) || module.starts_with(name + ".");
  });
}

std::optional<Quantization> read_quantization(const ConfigReader& in) {
  const json* object = in.find(kKey);
  if (!object) return std::nullopt;
  if (!object->is_object()) in.fail(fmt::format("'{}' is not an object", kKey));
  const ConfigReader inner(*object, in.origin());
  const bool in_4_bits = inner.flag("load_in_4bit", false), in_8_bits = inner.flag("load_in_8bit", false);
  // The first versions of bitsandbytes wrote no method.
  const std::string method = inner.text("quant_method", in_4_bits || in_8_bits ? "bitsandbytes" : "unknown");
  if (method != "bitsandbytes")
    refuse(in, fmt::format("weights quantized by the method '{}' cannot be read", method));
  if (in_8_bits) return Quantization{Quantization::Dtype::int8, false, read_skipped(inner)};
  if (!in_4_bits) return std::nullopt;
  const std::string type = inner.text("bnb_4bit_quant_type", "fp4");
  if (type != "nf4") refuse(in, fmt::format("weights of bitsandbytes' type '{}' cannot be read", type));
  return Quantization{Quantization::Dtype::nf4, inner.flag("bnb_4bit_use_double_quant", false),
                      read_skipped(inner)};
}

}  // namespace dpo::model
