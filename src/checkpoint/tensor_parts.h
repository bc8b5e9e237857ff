#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/formats/safetensors.h"
#include "checkpoint/load.h"
#include "model/weights.h"

namespace dpo::checkpoint {

// A rank's part of a tensor in a file. `values` is contiguous and holds the tensor's elements in `ranges`,
// one range after another.
struct TensorPart {
  std::string name;
  at::Tensor values;
  std::vector<model::Range> ranges;
};

std::vector<at::Tensor> flats_of(const model::Weights& weights);

// Returns a rank's parts of an array with one number per parameter (weights or optimizer state), given as the
// flat buffer of each block. Their names in a file are `prefix` followed by the table's name.
std::vector<TensorPart> parts_of(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                 const model::Layout& layout, const std::string& prefix);

// Returns only the parts that this rank writes. A tensor that is replicated over tensor-parallel ranks is
// written by the first of them.
std::vector<TensorPart> parts_to_write(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                       const model::Layout& layout, const std::string& prefix);

// Describes an array with one number per group of `group` elements of a tensor-parallel rank's buffer.
// group_shape returns its shape in a file, [tensor-parallel ranks, groups], which does not depend on the
// number of shards. group_parts_of returns a rank's parts, named by block number.
std::vector<std::int64_t> group_shape(const model::Block& block, const model::Layout& layout,
                                      std::int64_t group);
std::vector<TensorPart> group_parts_of(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                       const model::Layout& layout, const std::string& prefix);

// Returns the part of a rank that holds the whole tensor.
TensorPart whole_part(std::string name, const at::Tensor& tensor);

// A safetensors file that ranks write together.
struct TensorFile {
  std::string name;  // within its folder
  SafetensorsPlan plan;
};

// Creates the files in a folder, without the tensors' bytes. Called by one rank.
void make_files(const std::filesystem::path& folder, const std::vector<TensorFile>& files);

// Writes a rank's parts into the files of make_files and flushes them to disk. The parts may be on any
// device.
void write_parts(const std::filesystem::path& folder, const std::vector<TensorFile>& files,
                 const std::vector<TensorPart>& parts, const ProgressCallback& progress = {});

}  // namespace dpo::checkpoint
