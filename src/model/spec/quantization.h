#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/spec/config_reader.h"

namespace dpo::model {

// Describes how matrices are quantized in a model's files, as bitsandbytes writes them.
struct Quantization {
  enum class Dtype { nf4, int8 };
  Dtype dtype{};
  bool nested = false;               // nf4 with 8-bit scales: double quantization
  std::vector<std::string> skipped;  // modules that are not quantized

  // True if a matrix of the layers is expected to be quantized, given its name. Used for planning only; a
  // loader goes by the files.
  bool covers(const std::string& tensor) const;
};

std::string name_of(Quantization::Dtype dtype);

// Reads 'quantization_config' of a config.json; nullopt without one. Throws a UserError if the files cannot
// be read.
std::optional<Quantization> read_quantization(const ConfigReader& in);

}  // namespace dpo::model
