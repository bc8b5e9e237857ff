#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/tables/config_reader.h"

namespace dpo::model {

// Matrices that a model's files have in few bits, as bitsandbytes writes them.
struct Quantization {
  enum class Dtype { nf4, int8 };
  Dtype dtype{};
  bool nested = false;               // nf4 with scales of 8 bits: double quantization
  std::vector<std::string> skipped;  // modules that are not quantized

  // Whether a matrix of the layers is quantized, by its name. The files decide; this is for planning.
  bool covers(const std::string& tensor) const;
};

std::string name_of(Quantization::Dtype dtype);

// 'quantization_config' of a config.json; nullopt without one. What cannot be read is a UserError.
std::optional<Quantization> read_quantization(const ConfigReader& in);

}  // namespace dpo::model
