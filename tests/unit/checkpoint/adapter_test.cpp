#include "checkpoint/adapter.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include "model/init.h"
#include "unit/checkpoint/tiny.h"

namespace dpo::checkpoint {
namespace {

using namespace tiny;

class AdapterFolder : public FolderTest {
 protected:
  AdapterFolder() {
    fs::create_directories(folder_ / "in");
    write("in/config.json", config_json(true));
    model_ = new_model(folder_ / "in", at::kFloat, at::kCPU, 3);
    adapter_.config.settings = {.r = 3, .targets = {"c_attn", "c_fc"}, .dora = true};
    adapter_.config.base = "org/base";
    adapter_.table = model::adapter_table(model_.table, adapter_.config.settings);
    weights_ = model::make_weights(adapter_.table, at::kFloat, at::kCPU);
    model::initialize(weights_, adapter_.table, model_.config, 4);
  }

  fs::path save() const {
    const fs::path out = folder_ / "adapter";
    fs::create_directories(out);
    const std::vector<TensorFile> files = adapter_files(adapter_.table, at::kFloat);
    make_adapter_files(out, adapter_, model_.table, {{"tokenizer.json", "{}"}}, files);
    write_parts(out, files, parts_of(peft_table(adapter_.table), flats_of(weights_), {}, ""));
    return out;
  }

  LoadedModel model_;
  AdapterInfo adapter_;
  model::Weights weights_;
};

TEST_F(AdapterFolder, IsReadAsSaved) {
  const fs::path out = save();
  EXPECT_TRUE(is_adapter(out));
  EXPECT_FALSE(is_adapter(folder_ / "in"));
  EXPECT_TRUE(fs::exists(out / "tokenizer.json"));
  const AdapterInfo found = open_adapter(out, model_.table);
  EXPECT_EQ(found.config.base, "org/base");
  ASSERT_EQ(found.table.count(), adapter_.table.count());
  model::Weights read = model::make_weights(found.table, at::kFloat, at::kCPU);
  read_adapter(out, found, read);
  for (std::size_t i = 0; i < read.blocks.size(); ++i)
    EXPECT_TRUE(at::equal(read.blocks[i].flat, weights_.blocks[i].flat)) << i;
}

TEST_F(AdapterFolder, HasTheNamesOfPeft) {
  const SafetensorsFile file(save() / "adapter_model.safetensors");
  std::vector<std::string> names;
  for (const Entry& entry : file.header().entries) names.push_back(entry.name);
  EXPECT_EQ(names.size(), 2U * 2 * 3);
  for (const char* name : {"base_model.model.transformer.h.0.attn.c_attn.lora_A.weight",
                           "base_model.model.transformer.h.1.mlp.c_fc.lora_B.weight",
                           "base_model.model.transformer.h.1.mlp.c_fc.lora_magnitude_vector"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

// The file's tensors determine which modules have LoRA, whatever the configuration says.
TEST_F(AdapterFolder, FollowsTheTensorsOfTheFile) {
  const fs::path out = save();
  AdapterInfo other = adapter_;
  other.config.settings.targets = {"all-linear"};
  std::ofstream(out / "adapter_config.json") << model::text_of(other.config, model_.table);
  EXPECT_EQ(open_adapter(out, model_.table).table.count(), adapter_.table.count());
}

TEST_F(AdapterFolder, RefusesTheAdapterOfAnotherModel) {
  const fs::path out = save();
  AdapterInfo other = adapter_;
  other.config.settings.r = 4;
  std::ofstream(out / "adapter_config.json") << model::text_of(other.config, model_.table);
  EXPECT_NE(
      message_of([&] { open_adapter(out, model_.table); }).find("has the shape [3, 8], expected [4, 8]"),
      std::string::npos);
  fs::remove(out / "adapter_model.safetensors");
  write_safetensors(out / "adapter_model.safetensors",
                    {source_of("base_model.model.transformer.wte.lora_embedding_A", at::randn({3, 13}))});
  const std::string embedding = message_of([&] { open_adapter(out, model_.table); });
  EXPECT_NE(embedding.find("changes the embedding or the head"), std::string::npos) << embedding;
  std::vector<TensorToWrite> others;
  for (int i = 0; i < 9; ++i)
    others.push_back(source_of("base_model.model.other." + std::to_string(i), at::randn({2})));
  fs::remove(out / "adapter_model.safetensors");
  write_safetensors(out / "adapter_model.safetensors", others);
  const std::string message = message_of([&] { open_adapter(out, model_.table); });
  EXPECT_NE(message.find("'base_model.model.other.0' is not LoRA of a matrix in a layer of this model"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("and 6 more like these"), std::string::npos) << message;
}

TEST_F(AdapterFolder, IsOfOneModel) {
  const std::string in = folder_ / "in", adapter = save();
  fs::create_directories(folder_ / "copy");
  write("copy/config.json", config_json(true));
  fs::create_directory_symlink("in", folder_ / "link");
  EXPECT_EQ(base_name(folder_ / "link"), fs::canonical(in).string());
  EXPECT_EQ(base_name("org/base"), "org/base");
  EXPECT_EQ(check_base(adapter, in, folder_ / "link", "MODEL"), "");
  EXPECT_EQ(check_base(adapter, in, folder_ / "in/config.json", "MODEL"), "");
  EXPECT_EQ(check_base(adapter, "", in, "MODEL"), "");
  EXPECT_NE(check_base(adapter, folder_ / "gone", in, "MODEL").find("is not on this machine"),
            std::string::npos);
  const std::string message = message_of([&] { check_base(adapter, in, folder_ / "copy", "MODEL"); });
  EXPECT_NE(message.find("is an adapter of " + in + ", but MODEL is "), std::string::npos) << message;
}

TEST_F(AdapterFolder, IsFoundByItsFolder) {
  const fs::path out = save();
  EXPECT_TRUE(adapter_folder(out) == out);
  EXPECT_NE(message_of([&] { adapter_folder(folder_ / "in"); }).find("it has no adapter_config.json"),
            std::string::npos);
  EXPECT_NE(message_of([&] { adapter_folder(out / "tokenizer.json"); }).find("is a file"), std::string::npos);
  EXPECT_NE(message_of([&] { adapter_folder("no/adapter"); }).find("there is no adapter no/adapter"),
            std::string::npos);
}

TEST_F(AdapterFolder, GivesAMergedModelItsTokenizer) {
  const fs::path out = save();
  std::ofstream(out / "chat_template.jinja") << "new";
  EXPECT_TRUE(has_tokenizer(out));
  EXPECT_FALSE(has_tokenizer(folder_ / "in"));
  model_.other_files = {{"generation_config.json", "kept"}, {"chat_template.json", "old"}};
  use_tokenizer(model_, out);
  const std::map<std::string, std::string> expected = {
      {"generation_config.json", "kept"}, {"tokenizer.json", "{}"}, {"chat_template.jinja", "new"}};
  EXPECT_EQ(model_.other_files, expected);
}

// Each rank reads its own part.
TEST_F(AdapterFolder, IsReadByEveryLayout) {
  const fs::path out = save();
  const AdapterInfo found = open_adapter(out, model_.table);
  for (const std::int64_t tensor_ranks : {1, 2})
    for (const std::int64_t shard_ranks : {1, 3})
      for (std::int64_t rank = 0; rank < tensor_ranks * shard_ranks; ++rank) {
        const model::Layout layout{rank % tensor_ranks, tensor_ranks, rank / tensor_ranks, shard_ranks};
        model::Weights part = model::make_weights(found.table, at::kFloat, at::kCPU, layout);
        read_adapter(out, found, part, layout);
        for (std::size_t i = 0; i < found.table.blocks.size(); ++i)
          for (const model::Piece& piece : model::pieces_of(found.table.blocks[i], layout))
            ASSERT_TRUE(at::equal(part.blocks[i].flat.narrow(0, piece.to, piece.count),
                                  weights_.blocks[i].tensors[piece.tensor].tensor.view({-1}).narrow(
                                      0, piece.from, piece.count)));
      }
}

}  // namespace
}  // namespace dpo::checkpoint
