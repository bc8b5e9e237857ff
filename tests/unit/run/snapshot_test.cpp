#include "run/snapshot.h"

#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/read_tensors.h"
#include "checkpoint/save.h"
#include "run/folder.h"
#include "train/events.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::string> kConfigs = {
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
const std::vector<Mesh> kMeshes = {{1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 4, 1}, {1, 1, 2},
                                   {1, 1, 4}, {1, 2, 2}, {2, 1, 1}, {2, 3, 1}};

std::vector<RankPart> parts_of(const Mesh& mesh) {
  std::vector<RankPart> parts;
  const auto ranks = static_cast<int>(mesh.replicas * mesh.shards * mesh.tensors);
  for (int rank = 0; rank < ranks; ++rank) {
    const model::Layout layout{rank % mesh.tensors, mesh.tensors, rank / mesh.tensors % mesh.shards,
                               mesh.shards};
    parts.push_back({{rank, ranks, "launch"}, layout, rank < mesh.shards * mesh.tensors});
  }
  return parts;
}

// Numbers that are different for every element of every tensor of every array, and exact in float32.
at::Tensor number_of(std::size_t array, std::size_t block, const model::Piece& piece) {
  const auto first = static_cast<std::int64_t>(array * 4'000'000 + block * 1'000'000 + piece.tensor * 50'000);
  return at::arange(first + piece.from, first + piece.from + piece.count, at::kFloat);
}

void fill(std::size_t array, const std::vector<at::Tensor>& flats, const model::TensorTable& table,
          const model::Layout& layout) {
  for (std::size_t i = 0; i < flats.size(); ++i)
    for (const model::Piece& piece : model::pieces_of(table.blocks[i], layout))
      flats[i].narrow(0, piece.to, piece.count).copy_(number_of(array, i, piece));
}

// What a rank of a run has in memory.
struct Rank {
  RankPart part;
  checkpoint::LoadedModel model;
  std::unique_ptr<optim::Optimizer> optimizer;

  std::vector<std::vector<at::Tensor>> arrays() const {
    std::vector<std::vector<at::Tensor>> all{checkpoint::flats_of(model.weights)};
    for (const optim::StateArray& array : optimizer->state().arrays) all.push_back(array.blocks);
    return all;
  }
  Snapshot snapshot(std::int64_t examples) const {
    RunState progress;
    progress.examples = examples;
    return take_snapshot(model, model.weights, *optimizer, model.table, progress, part);
  }
};

std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      contents[fs::relative(entry.path(), folder)] = read_text_file(entry.path(), "test");
  return contents;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

void wait_for(const fs::path& file) {
  while (!fs::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// What finish() throws, or nothing.
std::string failure_message(CheckpointWriter& writer) {
  try {
    writer.finish();
  } catch (const train::TrainingFailure& failure) {
    return failure.what();
  }
  return "";
}

class Checkpoints : public testing::Test {
 protected:
  Checkpoints()
      : folder_(fs::path(testing::TempDir()) /
                ("dpo_train_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(folder_);
    for (const auto& [name, config] : kConfigs) {
      fs::create_directories(folder_ / name);
      std::ofstream(folder_ / name / "config.json") << config;
      std::ofstream(folder_ / name / "tokenizer.json") << "the tokenizer of " << name;
    }
  }
  ~Checkpoints() override { fs::remove_all(folder_); }

  // A rank as it is before anything was read: zeros.
  Rank blank(const std::string& model, const RankPart& part,
             config::Optimizer optimizer = config::Optimizer::Adam, at::ScalarType type = at::kFloat) const {
    Rank rank{part, checkpoint::new_model(folder_ / model, type, at::kCPU, 1, part.layout), nullptr};
    for (model::BlockWeights& block : rank.model.weights.blocks) block.flat.zero_();
    rank.optimizer = optim::make_optimizer(optimizer, rank.model.weights);
    return rank;
  }
  // One with numbers of its own in all that it holds.
  Rank trained(const std::string& model, const RankPart& part) const {
    Rank rank = blank(model, part);
    const auto arrays = rank.arrays();
    for (std::size_t i = 0; i < arrays.size(); ++i) fill(i, arrays[i], rank.model.table, part.layout);
    return rank;
  }

  // The same, with wrong numbers in all that is another rank's to write, so that the bytes show who did.
  Rank writing(const std::string& model, const RankPart& part) const {
    Rank rank = trained(model, part);
    for (const auto& flats : rank.arrays())
      for (std::size_t i = 0; i < flats.size(); ++i)
        for (const model::Piece& piece : model::pieces_of(rank.model.table.blocks[i], part.layout)) {
          const bool split = rank.model.table.blocks[i].tensors[piece.tensor].split.has_value();
          if (!part.writes || (part.layout.tensor_rank > 0 && !split))
            flats[i].narrow(0, piece.to, piece.count).fill_(-1);
        }
    return rank;
  }

  // All ranks write one checkpoint, each in a thread of its own.
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

TEST_F(Checkpoints, HaveOneFormWhateverTheRanks) {
  for (const auto& [model, config] : kConfigs) {
    const auto wanted = contents_of(save("one-" + model, model, {}));
    EXPECT_TRUE(wanted.contains("COMPLETE") && wanted.contains("state/optimizer.safetensors"));
    for (std::size_t i = 0; i < kMeshes.size(); ++i) {
      const std::string run = model + std::to_string(i);
      const auto got = contents_of(save(run, model, kMeshes[i]));
      ASSERT_EQ(got.size(), wanted.size()) << run;
      for (const auto& [name, bytes] : wanted) EXPECT_TRUE(got.at(name) == bytes) << run << " " << name;
      EXPECT_EQ(names_in(folder_ / run), (std::set<std::string>{"step-8", "LATEST"})) << "nothing else";
    }
  }
}

TEST_F(Checkpoints, AreReadByEveryOtherMesh) {
  for (const auto& [model, config] : kConfigs) {
    const fs::path saved = save("run-" + model, model, {1, 2, 2});
    verify_checkpoint(saved);
    EXPECT_EQ(read_run_state(saved).examples, 8);
    for (const Mesh& mesh : kMeshes)
      for (const RankPart& part : parts_of(mesh)) {
        Rank got = blank(model, part);
        got.model = checkpoint::load_model(saved, at::kFloat, at::kCPU, std::nullopt, {}, part.layout);
        read_optimizer(saved, *got.optimizer, got.model.table, part.layout);
        const auto arrays = got.arrays(), wanted = trained(model, part).arrays();
        for (std::size_t i = 0; i < arrays.size(); ++i)
          for (std::size_t block = 0; block < arrays[i].size(); ++block)
            EXPECT_TRUE(arrays[i][block].equal(wanted[i][block]))
                << model << " array " << i << " block " << block << " rank " << part.rank << " of "
                << part.ranks;
      }
  }
}

TEST_F(Checkpoints, AreCopiedByThoseWhoWriteThem) {
  for (const RankPart& part : parts_of({2, 2, 1})) {
    const Snapshot taken = trained("gpt2", part).snapshot(8);
    EXPECT_EQ(taken.model.weights.blocks.empty(), part.rank >= 2);
    EXPECT_EQ(taken.optimizer.arrays.empty(), part.rank >= 2);
  }
}

// The checkpoint format is that of files which one process writes tensor by tensor.
TEST_F(Checkpoints, AreFilesOfWholeTensors) {
  const fs::path saved = save("run", "llama", {1, 3, 1});
  const Rank one = trained("llama", {});
  std::vector<checkpoint::Source> weights, state;
  const auto source_of = [](const std::string& name, const at::Tensor& tensor) {
    return checkpoint::Source{name, checkpoint::Dtype::F32, tensor.sizes().vec(), [tensor] {
                                return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()),
                                                 tensor.nbytes());
                              }};
  };
  const optim::State optimizer = one.optimizer->state();
  for (std::size_t i = 0; i < one.model.table.blocks.size(); ++i) {
    const model::Block& block = one.model.table.blocks[i];
    for (std::size_t j = 0; j < block.tensors.size(); ++j) {
      weights.push_back(source_of(block.tensors[j].name, one.model.weights.blocks[i].tensors[j].tensor));
      for (const optim::StateArray& array : optimizer.arrays)
        state.push_back(source_of(array.name + "." + block.tensors[j].name,
                                  model::block_views(array.blocks[i], block, {}).tensors[j].tensor));
    }
  }
  checkpoint::write_safetensors(folder_ / "model.safetensors", weights);
  checkpoint::write_safetensors(folder_ / "optimizer.safetensors", state);
  EXPECT_TRUE(read_text_file(saved / "model.safetensors", "test") ==
              read_text_file(folder_ / "model.safetensors", "test"));
  EXPECT_TRUE(read_text_file(saved / "state" / "optimizer.safetensors", "test") ==
              read_text_file(folder_ / "optimizer.safetensors", "test"));
}

TEST_F(Checkpoints, KeepSixteenBits) {
  Rank rank = blank("gpt2", {}, config::Optimizer::RMSprop, at::kBFloat16);
  for (const auto& array : rank.arrays()) array[1].fill_(1.5);
  write_checkpoint(folder_ / "step-8", rank.snapshot(8));
  Rank again = blank("gpt2", {}, config::Optimizer::RMSprop, at::kBFloat16);
  read_optimizer(folder_ / "step-8", *again.optimizer, again.model.table);
  const at::Tensor got = again.arrays()[1][1].to(at::kDouble);
  EXPECT_EQ(got.sum().item<double>(), 1.5 * static_cast<double>(again.model.table.blocks[1].count()));
  Rank exact = blank("gpt2", {}, config::Optimizer::RMSprop);
  EXPECT_THROW(read_optimizer(folder_ / "step-8", *exact.optimizer, exact.model.table), UserError)
      << "another dtype";
}

TEST_F(Checkpoints, KeepTheStateOfAdafactor) {
  Rank rank = blank("gpt2", {}, config::Optimizer::Adafactor);
  const optim::State state = rank.optimizer->state();
  for (std::size_t i = 0; i < state.tensors.size(); ++i)
    state.tensors[i].values.fill_(static_cast<double>(i + 1));
  write_checkpoint(folder_ / "step-8", rank.snapshot(8));
  Rank again = blank("gpt2", {}, config::Optimizer::Adafactor);
  read_optimizer(folder_ / "step-8", *again.optimizer, again.model.table);
  const optim::State got = again.optimizer->state();
  ASSERT_EQ(got.tensors.size(), state.tensors.size());
  for (std::size_t i = 0; i < got.tensors.size(); ++i)
    EXPECT_TRUE(got.tensors[i].values.equal(state.tensors[i].values)) << i;
  const checkpoint::SafetensorsFile file(folder_ / "step-8" / "state" / "optimizer.safetensors");
  const auto& entries = file.header().entries;
  EXPECT_TRUE(std::any_of(entries.begin(), entries.end(), [](const checkpoint::Entry& entry) {
    return entry.name == "row_var.transformer.h.1.attn.c_attn.weight";
  }));
}

TEST_F(Checkpoints, OfAnotherOptimizerOrVersionAreRefused) {
  const fs::path saved = save("run", "gpt2", {});
  Rank other = blank("gpt2", {}, config::Optimizer::RMSprop);
  try {
    read_optimizer(saved, *other.optimizer, other.model.table);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("'square_avg.transformer.wte.weight' is missing"),
              std::string::npos);
  }
}

TEST_F(Checkpoints, AreCompleteOnlyWithEveryRanksPart) {
  const std::vector<RankPart> parts = parts_of({1, 2, 1});
  fs::create_directories(folder_ / "run");
  CheckpointWriter first(folder_ / "run", std::nullopt, parts[0]);
  CheckpointWriter second(folder_ / "run", std::nullopt, parts[1]);
  first.write(trained("gpt2", parts[0]).snapshot(8), false);
  wait_for(folder_ / "run" / "step-8.tmp.launch.signs" / "part-0.done");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(fs::exists(folder_ / "run" / "step-8"));
  second.write(trained("gpt2", parts[1]).snapshot(8), false);
  second.finish();
  EXPECT_TRUE(is_complete(folder_ / "run" / "step-8"));
  first.finish();
  // The same step again, which already exists.
  first.write(trained("gpt2", parts[0]).snapshot(8), true);
  second.write(trained("gpt2", parts[1]).snapshot(8), true);
  first.finish();
  second.finish();
  EXPECT_EQ(fs::read_symlink(folder_ / "run" / "BEST"), "step-8");
}

TEST_F(Checkpoints, FailOnAllRanksWithTheMessageOfOne) {
  const fs::path run = folder_ / "run", file = run / "step-16.tmp.launch" / "model.safetensors";
  save("run", "gpt2", {1, 3, 1});
  std::vector<std::unique_ptr<CheckpointWriter>> writers;
  const std::vector<RankPart> parts = parts_of({1, 3, 1});
  for (const RankPart& part : parts)
    writers.push_back(std::make_unique<CheckpointWriter>(run, std::nullopt, part));
  for (const int rank : {0, 1}) {
    writers[rank]->write(trained("gpt2", parts[rank]).snapshot(16), false);
    wait_for(run / "step-16.tmp.launch.signs" / ("part-" + std::to_string(rank) + ".done"));
  }
  fs::remove(file);  // a disk that is full when the last rank writes
  fs::create_symlink("/dev/full", file);
  writers[2]->write(trained("gpt2", parts[2]).snapshot(16), false);
  for (auto& writer : writers) {
    const std::string message = failure_message(*writer);
    EXPECT_NE(message.find("rank 2: writing " + file.string() + " failed: No space left on device"),
              std::string::npos)
        << message;
    writer->check();  // once is enough
  }
  EXPECT_FALSE(fs::exists(run / "step-16") || fs::exists(run / "step-16.tmp.launch"));
  EXPECT_EQ(fs::read_symlink(run / "LATEST"), "step-8");
  verify_checkpoint(run / "step-8");
  RunFolder resumed(run, {.examples = 8});
  EXPECT_EQ(names_in(run), (std::set<std::string>{"step-8", "LATEST", ".lock", "metrics.jsonl", "log.txt"}));
}

TEST_F(Checkpoints, FailOnAllRanksWhenTheFirstCannotBegin) {
  const std::vector<RankPart> parts = parts_of({1, 2, 1});
  fs::create_directories(folder_ / "run" / "step-8.tmp.launch");  // what should not be there
  CheckpointWriter first(folder_ / "run", std::nullopt, parts[0]);
  CheckpointWriter second(folder_ / "run", std::nullopt, parts[1]);
  first.write(trained("gpt2", parts[0]).snapshot(8), false);
  second.write(trained("gpt2", parts[1]).snapshot(8), false);
  for (CheckpointWriter* writer : {&first, &second})
    EXPECT_NE(failure_message(*writer).find("step-8.tmp.launch failed: File exists"), std::string::npos);
}

// Files left by a killed process are ignored.
TEST_F(Checkpoints, AreNotConfusedByWhatAnotherLaunchLeft) {
  for (const char* left : {"step-8.tmp.other", "step-8.tmp.other.signs"})
    fs::create_directories(folder_ / "run" / left);
  for (const char* sign : {"ready", "part-0.done", "part-1.done", "failed"})
    std::ofstream(folder_ / "run" / "step-8.tmp.other.signs" / sign) << "old";
  EXPECT_EQ(contents_of(save("run", "gpt2", {1, 2, 1})), contents_of(save("clean", "gpt2", {})));
  RunFolder resumed(folder_ / "run", {.examples = 8});
  EXPECT_FALSE(fs::exists(folder_ / "run" / "step-8.tmp.other"));
  EXPECT_FALSE(fs::exists(folder_ / "run" / "step-8.tmp.other.signs"));
}

TEST_F(Checkpoints, OfTheRunAreThePastFewAndTheBest) {
  fs::create_directories(folder_ / "run");
  std::vector<std::jthread> ranks;
  for (const RankPart& part : parts_of({1, 2, 1}))
    ranks.emplace_back([&, part] {
      CheckpointWriter writer(folder_ / "run", 2, part);
      for (const std::int64_t examples : {8, 16, 24, 32})
        writer.write(trained("gpt2", part).snapshot(examples), examples == 8);
      writer.finish();
    });
  ranks.clear();
  EXPECT_EQ(names_in(folder_ / "run"),
            (std::set<std::string>{"step-8", "step-24", "step-32", "LATEST", "BEST"}));
  EXPECT_EQ(fs::read_symlink(folder_ / "run" / "LATEST"), "step-32");
  EXPECT_EQ(fs::read_symlink(folder_ / "run" / "BEST"), "step-8");
}

// A rank that fails in training does not wait for others, which may be gone.
TEST_F(Checkpoints, AreCancelledWithTheirWriter) {
  const std::vector<RankPart> parts = parts_of({1, 2, 1});
  for (const RankPart& part : parts) {
    const fs::path run = folder_ / ("run-" + std::to_string(part.rank));
    fs::create_directories(run);
    CheckpointWriter(run, std::nullopt, part).write(trained("gpt2", part).snapshot(8), false);
    EXPECT_FALSE(fs::exists(run / "step-8") || fs::exists(run / "step-8.tmp.launch"));
  }
}

}  // namespace
}  // namespace dpo::run
