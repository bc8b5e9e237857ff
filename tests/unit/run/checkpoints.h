// Writes checkpoints of tiny models by ranks of any mesh, each rank a thread.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "checkpoint/tensor_parts.h"
#include "run/snapshot.h"

namespace dpo::run {

namespace fs = std::filesystem;

inline const std::map<std::string, std::string> kConfigs = {
    {"gpt2", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 4, "vocab_size": 13,
                 "n_positions": 16})"},
    {"gpt_neox", R"({"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 32,
                     "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 257,
                     "max_position_embeddings": 16})"},
    {"llama", R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 8,
                  "num_key_value_heads": 4, "intermediate_size": 20, "vocab_size": 9,
                  "max_position_embeddings": 16})"}};

struct Mesh {
  std::int64_t replicas = 1, shards = 1, tensors = 1;
};
inline const std::vector<Mesh> kMeshes = {{1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 4, 1}, {1, 1, 2},
                                          {1, 1, 4}, {1, 2, 2}, {2, 1, 1}, {2, 3, 1}};

inline std::vector<RankPart> parts_of(const Mesh& mesh) {
  std::vector<RankPart> parts;
  const auto ranks = static_cast<int>(mesh.replicas * mesh.shards * mesh.tensors);
  for (int rank = 0; rank < ranks; ++rank) {
    const model::Layout layout{rank % mesh.tensors, mesh.tensors, rank / mesh.tensors % mesh.shards,
                               mesh.shards};
    parts.push_back({{rank, ranks, "launch"}, layout, rank < mesh.shards * mesh.tensors});
  }
  return parts;
}

// Returns numbers that differ for every element of every tensor of every array and are exact in float32.
inline at::Tensor number_of(std::size_t array, std::size_t block, const model::Piece& piece) {
  const auto first = static_cast<std::int64_t>(array * 4'000'000 + block * 1'000'000 + piece.tensor * 50'000);
  return at::arange(first + piece.from, first + piece.from + piece.count, at::kFloat);
}

inline void fill(std::size_t array, const std::vector<at::Tensor>& flats, const model::TensorTable& table,
                 const model::Layout& layout) {
  for (std::size_t i = 0; i < flats.size(); ++i)
    for (const model::Piece& piece : model::pieces_of(table.blocks[i], layout))
      flats[i].narrow(0, piece.to, piece.count).copy_(number_of(array, i, piece));
}

// The data that a rank of a run has in memory.
struct Rank {
  RankPart part;
  checkpoint::LoadedModel model;
  std::unique_ptr<optim::Optimizer> optimizer;

  const model::TensorTable& table() const { return model.adapter ? model.adapter->table : model.table; }
  std::vector<std::vector<at::Tensor>> arrays() const {
    std::vector<std::vector<at::Tensor>> all{checkpoint::flats_of(model.weights)};
    for (const optim::StateArray& array : optimizer->state().arrays) all.push_back(array.blocks);
    return all;
  }
  Snapshot snapshot(std::int64_t examples) const {
    RunState run_state;
    run_state.examples = examples;
    return take_snapshot(model, model.weights, *optimizer, table(), run_state, part);
  }
};

inline std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      contents[fs::relative(entry.path(), folder)] = read_text_file(entry.path(), "test");
  return contents;
}

inline std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

class Checkpoints : public testing::Test {
 protected:
  Checkpoints()
      : folder_(fs::path(testing::TempDir()) /
                ("dpo_train_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(folder_);
    for (const auto& [name, config] : kConfigs) make_folder(name, config);
    make_folder("llama_lora", kConfigs.at("llama"));  // with an adapter; see blank()
  }
  ~Checkpoints() override { fs::remove_all(folder_); }

  void make_folder(const std::string& name, const std::string& config) const {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "config.json") << config;
    std::ofstream(folder_ / name / "tokenizer.json") << "the tokenizer of " << name;
  }

  // Returns a rank before anything was read: zeros.
  Rank blank(const std::string& model, const RankPart& part,
             config::Optimizer optimizer = config::Optimizer::Adam, at::ScalarType type = at::kFloat,
             std::optional<config::OptimizerState> state = std::nullopt) const {
    Rank rank{part, checkpoint::new_model(folder_ / model, type, at::kCPU, 1, part.layout), nullptr};
    if (model.ends_with("lora")) {
      const model::AdapterSettings settings{.r = 3, .modules_to_save = {"lm_head"}};
      rank.model.adapter =
          checkpoint::AdapterInfo{{settings, "base"}, model::adapter_table(rank.model.table, settings)};
      rank.model.weights = model::make_weights(rank.table(), type, at::kCPU, part.layout);
    }
    for (model::BlockWeights& block : rank.model.weights.blocks) block.flat.zero_();
    rank.optimizer = optim::make_optimizer(optimizer, rank.model.weights, {.state = state});
    return rank;
  }
  // Returns a rank with distinct numbers in all that it holds.
  Rank trained(const std::string& model, const RankPart& part) const {
    Rank rank = blank(model, part);
    const auto arrays = rank.arrays();
    for (std::size_t i = 0; i < arrays.size(); ++i) fill(i, arrays[i], rank.table(), part.layout);
    return rank;
  }

  // Returns trained(), but with wrong numbers in all parts that other ranks write, so that a checkpoint shows
  // which rank wrote each part.
  Rank writing(const std::string& model, const RankPart& part) const {
    Rank rank = trained(model, part);
    for (const auto& flats : rank.arrays())
      for (std::size_t i = 0; i < flats.size(); ++i)
        for (const model::Piece& piece : model::pieces_of(rank.table().blocks[i], part.layout)) {
          const bool split = rank.table().blocks[i].tensors[piece.tensor].split.has_value();
          if (!part.writes || (part.layout.tensor_rank > 0 && !split))
            flats[i].narrow(0, piece.to, piece.count).fill_(-1);
        }
    return rank;
  }

  // Writes one checkpoint from all ranks, each in its own thread.
  fs::path save(const std::string& run, const std::string& model, const Mesh& mesh,
                std::int64_t examples = 8) const {
    fs::create_directories(folder_ / run);
    std::vector<std::jthread> ranks;
    for (const RankPart& part : parts_of(mesh))
      ranks.emplace_back([&, part] {
        CheckpointWriter writer(folder_ / run, std::nullopt, part);
        writer.write(writing(model, part).snapshot(examples), false);
        writer.finish();
      });
    ranks.clear();
    return folder_ / run / ("step-" + std::to_string(examples));
  }

  fs::path folder_;
};

}  // namespace dpo::run
