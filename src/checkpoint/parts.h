#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/formats/safetensors.h"
#include "checkpoint/load.h"
#include "model/weights.h"

namespace dpo::checkpoint {

// What a rank holds of a tensor in a file: `numbers`, a contiguous part of its memory, are the elements of
// the tensor that `runs` name, one run behind the other.
struct TensorPart {
  std::string name;
  at::Tensor numbers;
  std::vector<model::Run> runs;
};

std::vector<at::Tensor> flats_of(const model::Weights& weights);

// All that a rank holds of an array with a number for each parameter (weights, or what an optimizer keeps),
// given as the flat buffer of each block. In a file its tensors are named as the table's, behind `prefix`.
std::vector<TensorPart> parts_of(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                 const model::Layout& layout, const std::string& prefix);

// Of them, what this rank writes: a tensor that every tensor-parallel rank holds whole is the first one's.
std::vector<TensorPart> parts_to_write(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                       const model::Layout& layout, const std::string& prefix);

// A tensor of a file that one rank holds whole.
TensorPart whole_part(std::string name, const at::Tensor& tensor);

// A safetensors file that several ranks write together.
struct TensorFile {
  std::string name;  // within its folder
  SafetensorsPlan plan;
};

// Makes the files in a folder, all but the tensors' bytes: one rank does.
void make_files(const std::filesystem::path& folder, const std::vector<TensorFile>& files);

// Writes a rank's parts into the files that were made, and puts them on disk. The parts are tensors of the
// files, of any device.
void write_parts(const std::filesystem::path& folder, const std::vector<TensorFile>& files,
                 const std::vector<TensorPart>& parts, const Progress& progress = {});

}  // namespace dpo::checkpoint
