#include "checkpoint/load.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include "unit/checkpoint/tiny.h"

namespace dpo::checkpoint {
namespace {

using namespace tiny;

class Load : public FolderTest {
 protected:
  // Makes a model and its tensors, which a test may change before it writes them.
  void make(bool tied) { make(config_json(tied)); }
  // Makes a model with a tensor that is read in several pieces.
  void make_large() {
    std::string config = config_json(true);
    config.replace(config.find("13"), 2, "400000");
    make(config);
  }
  void make(const std::string& config) {
    write("config.json", config);
    model_ = new_model(folder_, at::kFloat, at::kCPU, 7);
    for (const auto& [name, tensor] : tensors_of(model_)) sources_.push_back(source_of(name, tensor));
  }
  void save(const std::string& name = "model.safetensors") { write_safetensors(folder_ / name, sources_); }
  LoadedModel load(at::ScalarType dtype = at::kFloat) { return load_model(folder_, dtype, at::kCPU); }

  void expect_same(const LoadedModel& loaded) {
    const auto got = tensors_of(loaded), wanted = tensors_of(model_);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].first, wanted[i].first);
      EXPECT_TRUE(at::equal(got[i].second, wanted[i].second.to(loaded.weights.dtype()))) << got[i].first;
    }
  }

  at::Tensor tensor_named(const std::string& name) {
    for (const auto& [other, tensor] : tensors_of(model_))
      if (other == name) return tensor;
    throw std::logic_error(name);
  }

  LoadedModel model_;
  std::vector<TensorToWrite> sources_;
};

TEST_F(Load, PlainSafetensors) {
  make(false);
  save();
  std::int64_t done = 0, all = 0;
  const auto progress = [&](std::int64_t now, std::int64_t of) { done = now, all = of; };
  const LoadedModel loaded = load_model(folder_, at::kFloat, at::kCPU, std::nullopt, progress);
  expect_same(loaded);
  EXPECT_EQ(done, all);
  EXPECT_EQ(all, 4 * loaded.table.count());
  EXPECT_EQ(loaded.folder, folder_);
  EXPECT_TRUE(loaded.notes.empty());
}

TEST_F(Load, OneBlockAfterTheOther) {
  make(false);
  save();
  std::int64_t done = 0, all = 0;
  const auto progress = [&](std::int64_t now, std::int64_t of) { done = now, all = of; };
  std::vector<std::string> seen;
  const auto each_block = [&](const model::Block& block, const model::BlockWeights& weights,
                              const model::StoredMatrices& stored) {
    EXPECT_TRUE(stored.empty());
    const std::size_t number = seen.size();
    EXPECT_TRUE(at::equal(weights.flat, model_.weights.blocks[number].flat)) << number;
    EXPECT_LE(done, all);
    seen.push_back(block.prefix);
    return model::BlockWeights{weights.flat + 1, {}};
  };
  const LoadedModel loaded =
      load_model(folder_, at::kFloat, at::kCPU, std::nullopt, progress, {}, each_block);
  EXPECT_EQ(done, all);
  EXPECT_EQ(all, 4 * loaded.table.count());
  ASSERT_EQ(seen.size(), loaded.table.blocks.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], loaded.table.blocks[i].prefix);
    EXPECT_TRUE(at::equal(loaded.weights.blocks[i].flat, model_.weights.blocks[i].flat + 1)) << i;
  }
}

TEST_F(Load, EveryDtypeIntoEveryOther) {
  make(true);
  for (const at::ScalarType stored : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    sources_.clear();
    for (const auto& [name, tensor] : tensors_of(model_))
      sources_.push_back(source_of(name, tensor.to(stored)));
    save();
    EXPECT_EQ(stored_dtype(folder_), stored);
    for (const at::ScalarType wanted : {at::kFloat, at::kHalf, at::kBFloat16})
      for (const auto& [name, tensor] : tensors_of(load(wanted)))
        EXPECT_TRUE(at::equal(tensor, tensor_named(name).to(stored).to(wanted))) << name;
  }
}

TEST_F(Load, MixedDtypesNeedAWiderOne) {
  make(true);
  for (TensorToWrite& source : sources_)
    source = source_of(
        source.name, tensor_named(source.name).to(source.name.ends_with("bias") ? at::kHalf : at::kBFloat16));
  save();
  EXPECT_EQ(stored_dtype(folder_), at::kFloat);
}

TEST_F(Load, LargerThanAPiece) {
  make_large();
  save();
  expect_same(load());
  expect_same(load(at::kBFloat16));
}

std::vector<model::Layout> layouts() {
  std::vector<model::Layout> all;
  for (const std::int64_t tensors : {1, 2})
    for (const std::int64_t shards : {1, 2, 3})
      for (std::int64_t rank = 0; rank < tensors * shards; ++rank)
        all.push_back({rank % tensors, tensors, rank / tensors, shards});
  return all;
}

TEST_F(Load, ARankGetsItsPart) {
  make(false);
  save();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const model::Layout& layout : layouts()) {
      const LoadedModel part = load_model(folder_, type, at::kCPU, std::nullopt, {}, layout);
      for (std::size_t i = 0; i < part.table.blocks.size(); ++i) {
        const model::Block& block = part.table.blocks[i];
        at::Tensor wanted = at::zeros({model::local_block(block, layout).shard_size});
        for (const model::Piece& piece : model::pieces_of(block, layout))
          wanted.narrow(0, piece.to, piece.count)
              .copy_(model_.weights.blocks[i].tensors[piece.tensor].tensor.view({-1}).narrow(0, piece.from,
                                                                                             piece.count));
        EXPECT_TRUE(at::equal(part.weights.blocks[i].flat, wanted.to(type))) << "block " << i;
        EXPECT_EQ(part.weights.blocks[i].tensors.empty(), layout.shard_ranks > 1);
      }
    }
}

// Returns the number of bytes that this process has read with system calls.
std::int64_t bytes_read() {
  std::ifstream counters("/proc/self/io");
  for (std::string name; counters >> name;)
    if (std::int64_t value = 0; name == "rchar:" && counters >> value) return value;
  throw std::runtime_error("/proc/self/io does not count what is read");
}

TEST_F(Load, ARankReadsOnlyItsPart) {
  make_large();
  save();
  constexpr std::int64_t kConfiguration = 100'000;  // more than config.json and the counters themselves
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const model::Layout& layout : layouts()) {
      std::int64_t held = 0, done = 0, all = 0;
      for (const model::Block& block : model_.table.blocks)
        for (const model::Piece& piece : model::pieces_of(block, layout)) held += 4 * piece.count;
      const std::int64_t before = bytes_read();
      load_model(
          folder_, type, at::kCPU, std::nullopt,
          [&](std::int64_t now, std::int64_t of) { done = now, all = of; }, layout);
      EXPECT_NEAR(static_cast<double>(bytes_read() - before - held), 0, kConfiguration);
      EXPECT_EQ(done, held);
      EXPECT_EQ(all, held);
    }
}

TEST_F(Load, ARankPicksFromATensorThatIsNotContiguous) {
  const at::Tensor stored = at::arange(24, at::kFloat).view({4, 6});
  // The matrix is transposed, as torch.save stores it.
  write_safetensors(folder_ / "m.safetensors", {source_of("m", stored)});
  WeightFiles files(folder_ / "m.safetensors");
  StoredTensor transposed = files.tensors()[0];
  transposed.shape = {6, 4};
  transposed.strides = {1, 6};
  const at::Tensor numbers = at::zeros({5}), wanted = stored.t().contiguous().view({-1});
  read_tensors(files, {{&transposed, numbers, {{3, 2}, {11, 3}}}}, {});
  EXPECT_TRUE(at::equal(numbers.narrow(0, 0, 2), wanted.narrow(0, 3, 2)));
  EXPECT_TRUE(at::equal(numbers.narrow(0, 2, 3), wanted.narrow(0, 11, 3)));
}

TEST_F(Load, ANewModelDoesNotDependOnTheLayout) {
  make(false);
  save();
  const model::Layout layout{1, 2, 1, 3};
  const LoadedModel made = new_model(folder_, at::kFloat, at::kCPU, 7, layout);
  const LoadedModel loaded = load_model(folder_, at::kFloat, at::kCPU, std::nullopt, {}, layout);
  for (std::size_t i = 0; i < made.weights.blocks.size(); ++i)
    EXPECT_TRUE(at::equal(made.weights.blocks[i].flat, loaded.weights.blocks[i].flat)) << i;
}

TEST_F(Load, AHeadThatEqualsTheEmbeddingIsTied) {
  make(true);
  sources_.push_back(source_of("lm_head.weight", tensor_named("transformer.wte.weight").clone()));
  save();
  const LoadedModel loaded = load();
  expect_same(loaded);
  EXPECT_TRUE(loaded.config.shape.tied_embeddings);
  EXPECT_TRUE(loaded.notes.empty());
}

TEST_F(Load, AHeadAloneIsTheEmbedding) {
  make(true);
  for (TensorToWrite& source : sources_)
    if (source.name == "transformer.wte.weight") source.name = "lm_head.weight";
  save();
  expect_same(load());
}

TEST_F(Load, AHeadThatDiffersUnties) {
  make(true);
  const at::Tensor head = tensor_named("transformer.wte.weight") + 1;
  sources_.push_back(source_of("lm_head.weight", head));
  save();
  const LoadedModel loaded = load();
  EXPECT_FALSE(loaded.config.shape.tied_embeddings);
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_NE(loaded.notes[0].find("treated as untied"), std::string::npos);
  EXPECT_EQ(tensors_of(loaded).size(), tensors_of(model_).size() + 1);
  EXPECT_TRUE(at::equal(loaded.weights.blocks.back().find("lm_head.weight")->tensor, head));
}

TEST_F(Load, AFileInsteadOfTheFoldersOwn) {
  make(false);
  save("other.safetensors");
  EXPECT_NE(message_of([&] { load(); }).find("no weights in this folder"), std::string::npos);
  expect_same(load_model(folder_, at::kFloat, at::kCPU, folder_ / "other.safetensors"));
  expect_same(load_model(folder_ / "config.json", at::kFloat, at::kCPU, folder_ / "other.safetensors"));
}

TEST_F(Load, WhatDoesNotExist) {
  setenv("HF_HUB_CACHE", folder_.c_str(), 1);
  const auto load_named = [](const std::string& name) {
    return message_of([&] { load_model(name, at::kFloat, at::kCPU); });
  };
  EXPECT_NE(load_named("org/name").find("org/name' downloads it"), std::string::npos);
  EXPECT_NE(load_named("/no/such/folder").find("there is no folder /no/such/folder"), std::string::npos);
  EXPECT_NE(load_named(folder_).find("config.json: No such file"), std::string::npos);
}

TEST_F(Load, ANameInTheCache) {
  setenv("HF_HUB_CACHE", folder_.c_str(), 1);
  const std::string commit(40, 'a');
  const fs::path snapshot = folder_ / "models--org--name" / "snapshots" / commit;
  fs::create_directories(snapshot);
  fs::create_directories(folder_ / "models--org--name" / "refs");
  write("models--org--name/refs/main", commit);
  make(true);
  write_safetensors(snapshot / "model.safetensors", sources_);
  fs::copy(folder_ / "config.json", snapshot / "config.json");
  expect_same(load_model("org/name", at::kFloat, at::kCPU));
}

}  // namespace
}  // namespace dpo::checkpoint
