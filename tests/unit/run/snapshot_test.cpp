#include "run/snapshot.h"

#include <algorithm>
#include <span>

#include <ATen/ops/where.h>
#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/adapter.h"
#include "checkpoint/formats/safetensors.h"
#include "unit/run/checkpoints.h"

namespace dpo::run {
namespace {

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

TEST_F(Checkpoints, OfAdaptersArePeftFoldersThatEveryMeshReads) {
  const std::string model = "llama_lora";
  const fs::path one = save("one", model, {});
  const auto wanted = contents_of(one);
  EXPECT_TRUE(wanted.contains("adapter_config.json") && wanted.contains("adapter_model.safetensors"));
  EXPECT_TRUE(wanted.contains("tokenizer.json") && wanted.contains("state/optimizer.safetensors"));
  EXPECT_FALSE(wanted.contains("config.json") || wanted.contains("model.safetensors"));
  for (std::size_t i = 0; i < kMeshes.size(); ++i) {
    const auto got = contents_of(save("run" + std::to_string(i), model, kMeshes[i]));
    ASSERT_EQ(got.size(), wanted.size()) << i;
    for (const auto& [name, bytes] : wanted) EXPECT_TRUE(got.at(name) == bytes) << i << " " << name;
    for (const RankPart& part : parts_of(kMeshes[i])) {
      Rank read = blank(model, part);
      const checkpoint::AdapterInfo found = checkpoint::open_adapter(one, read.model.table);
      checkpoint::read_adapter(one, found, read.model.weights, part.layout);
      read_optimizer(one, *read.optimizer, read.table(), part.layout);
      const auto arrays = read.arrays(), expected = trained(model, part).arrays();
      for (std::size_t a = 0; a < arrays.size(); ++a)
        for (std::size_t block = 0; block < arrays[a].size(); ++block)
          EXPECT_TRUE(arrays[a][block].equal(expected[a][block])) << "array " << a << " block " << block;
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

// The files must equal those that one process writes tensor by tensor.
TEST_F(Checkpoints, AreFilesOfWholeTensors) {
  const fs::path saved = save("run", "llama", {1, 3, 1});
  const Rank one = trained("llama", {});
  std::vector<checkpoint::TensorToWrite> weights, state;
  const auto source_of = [](const std::string& name, const at::Tensor& tensor) {
    return checkpoint::TensorToWrite{
        name, checkpoint::Dtype::F32, tensor.sizes().vec(), [tensor] {
          return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
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

// Fills the 8-bit codes of each parameter and the scales of each group of the buffer with distinct numbers.
void fill_codes(const Rank& rank) {
  const model::Layout& layout = rank.part.layout;
  for (const optim::StateArray& array : rank.optimizer->state().arrays)
    for (std::size_t i = 0; i < array.blocks.size(); ++i) {
      const model::Block& block = rank.table().blocks[i];
      const std::int64_t size = array.blocks[i].numel();
      if (array.group > 1) {
        const std::int64_t all = model::block_size(block, {0, layout.tensor_ranks, 0, 1}).size / array.group;
        const at::Tensor numbers =
            at::arange(layout.shard_rank * size, (layout.shard_rank + 1) * size, at::kFloat);
        array.blocks[i].copy_(at::where(numbers < all, numbers + 1000 * layout.tensor_rank + 0.5, 0));
      } else {
        for (const model::Piece& piece : model::pieces_of(block, layout))
          array.blocks[i]
              .narrow(0, piece.to, piece.count)
              .copy_((at::arange(piece.from, piece.from + piece.count) * 7 + static_cast<int>(piece.tensor))
                         .remainder(251));
      }
    }
}

TEST_F(Checkpoints, KeepEightBitsWhateverTheShards) {
  const auto rank_of = [&](const std::string& model, const RankPart& part) {
    return blank(model, part, config::Optimizer::Adam, at::kFloat, config::OptimizerState::eight_bit);
  };
  for (const std::string model : {"gpt_neox", "llama"})
    for (const std::int64_t tensors : {1, 2}) {
      const fs::path run = folder_ / fmt::format("{}-{}", model, tensors);
      fs::create_directories(run);
      std::vector<std::jthread> ranks;
      for (const RankPart& part : parts_of({1, 3, tensors}))
        ranks.emplace_back([&, part] {
          const Rank rank = rank_of(model, part);
          fill_codes(rank);
          CheckpointWriter writer(run, std::nullopt, part);
          writer.write(rank.snapshot(8), false);
          writer.finish();
        });
      ranks.clear();
      for (const std::int64_t shards : {1, 2, 3, 4})
        for (const RankPart& part : parts_of({1, shards, tensors})) {
          const Rank got = rank_of(model, part), wanted = rank_of(model, part);
          fill_codes(wanted);
          read_optimizer(run / "step-8", *got.optimizer, got.table(), part.layout);
          const auto arrays = got.optimizer->state().arrays, expected = wanted.optimizer->state().arrays;
          ASSERT_EQ(arrays.size(), 4u);
          for (std::size_t i = 0; i < arrays.size(); ++i)
            for (std::size_t block = 0; block < arrays[i].blocks.size(); ++block)
              EXPECT_TRUE(arrays[i].blocks[block].equal(expected[i].blocks[block]))
                  << model << " " << arrays[i].name << " block " << block << " rank " << part.rank << " of "
                  << part.ranks;
        }
      // Each tensor-parallel rank has its own groups.
      const RankPart other = parts_of({1, 1, 3 - tensors}).front();
      const Rank rank = rank_of(model, other);
      try {
        read_optimizer(run / "step-8", *rank.optimizer, rank.table(), other.layout);
        FAIL();
      } catch (const UserError& error) {
        EXPECT_NE(std::string(error.what()).find(fmt::format("only with mesh.tensor={}", tensors)),
                  std::string::npos)
            << error.what();
      }
    }
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

}  // namespace
}  // namespace dpo::run
