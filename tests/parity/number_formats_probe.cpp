// Quantizes matrices.
//
//   number_formats_probe nf4|int8|fp8 IN.safetensors OUT.safetensors
//
// In: matrices, float32 or bfloat16. Out, for each NAME: its parts (ops/quantized_matrix.h) NAME.codes,
// NAME.scales, NAME.nested, NAME.offset, and its values, NAME.values, in the dtype of the matrix.
#include <iostream>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include "checkpoint/formats/safetensors.h"
#include "ops/quantized_matrix.h"

namespace {

using namespace dpo;

checkpoint::TensorToWrite written(const std::string& name, const at::Tensor& tensor) {
  using checkpoint::Dtype;
  const Dtype dtype = tensor.scalar_type() == at::kByte    ? Dtype::U8
                      : tensor.scalar_type() == at::kFloat ? Dtype::F32
                                                           : Dtype::BF16;
  return {name, dtype, tensor.sizes().vec(), [data = tensor.contiguous()] {
            return std::span(static_cast<const std::byte*>(data.const_data_ptr()),
                             static_cast<std::size_t>(data.nbytes()));
          }};
}

void run(const std::string& dtype, const char* in, const char* out) {
  const ops::QuantizedDtype quantized_dtype = dtype == "nf4"    ? ops::QuantizedDtype::nf4
                                              : dtype == "int8" ? ops::QuantizedDtype::int8
                                                                : ops::QuantizedDtype::fp8;
  const checkpoint::SafetensorsFile file(in);
  std::vector<checkpoint::TensorToWrite> parts;
  for (const checkpoint::Entry& entry : file.header().entries) {
    const at::ScalarType type = entry.dtype == checkpoint::Dtype::F32 ? at::kFloat : at::kBFloat16;
    const at::Tensor matrix =
        at::from_blob(const_cast<std::byte*>(file.bytes_of(entry).data()), entry.shape, type).clone();
    const ops::QuantizedMatrix quantized = ops::quantize(matrix, quantized_dtype);
    const at::Tensor values = at::empty_like(matrix);
    ops::dequantize(quantized, values);
    parts.push_back(written(entry.name + ".codes", quantized.codes));
    parts.push_back(written(entry.name + ".scales", quantized.scales));
    if (quantized.nested.defined()) parts.push_back(written(entry.name + ".nested", quantized.nested));
    parts.push_back(written(entry.name + ".offset", at::tensor({quantized.offset}, at::kFloat)));
    parts.push_back(written(entry.name + ".values", values));
  }
  checkpoint::write_safetensors(out, parts);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    run(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
