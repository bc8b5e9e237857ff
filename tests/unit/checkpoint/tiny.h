// Writes a tiny model to disk for the tests of this folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/load.h"
#include "checkpoint/read_tensors.h"

namespace dpo::checkpoint::tiny {

namespace fs = std::filesystem;

inline std::string config_json(bool tied) {
  return std::string(R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 13,
      "n_positions": 16, "initializer_range": 0.5, "torch_dtype": "float16", "tie_word_embeddings": )") +
         (tied ? "true}" : "false}");
}

// A folder that is removed after the test.
class FolderTest : public testing::Test {
 protected:
  FolderTest()
      : folder_(fs::path(testing::TempDir()) /
                ("dpo_checkpoint_" +
                 std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FolderTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  fs::path folder_;
};

// Returns a tensor to write, which keeps its storage alive.
inline TensorToWrite source_of(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor kept = tensor.contiguous();
  return {name, dtype_of(kept.scalar_type()), kept.sizes().vec(),
          [kept] { return std::span(static_cast<const std::byte*>(kept.const_data_ptr()), kept.nbytes()); }};
}

// Returns every tensor of a model with its Hugging Face name.
inline std::vector<std::pair<std::string, at::Tensor>> tensors_of(const LoadedModel& model) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (std::size_t i = 0; i < model.table.blocks.size(); ++i)
    for (std::size_t j = 0; j < model.table.blocks[i].tensors.size(); ++j)
      tensors.emplace_back(model.table.blocks[i].tensors[j].name, model.weights.blocks[i].tensors[j].tensor);
  return tensors;
}

template <class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace dpo::checkpoint::tiny
