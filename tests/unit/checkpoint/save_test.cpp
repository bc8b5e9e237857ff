#include "checkpoint/save.h"

#include <ATen/ops/equal.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "unit/checkpoint/tiny.h"

namespace dpo::checkpoint {
namespace {

using namespace tiny;
constexpr std::uint64_t kOneFile = 1'000'000'000;

class Save : public FolderTest {
 protected:
  Save() {
    fs::create_directories(folder_ / "in");
    write("in/config.json", config_json(true));
    model_ = new_model(folder_ / "in", at::kFloat, at::kCPU, 3);
  }
  nlohmann::ordered_json written_config(const std::string& name) {
    return nlohmann::ordered_json::parse(read_text_file(folder_ / name / "config.json", "test"));
  }
  std::size_t count(const fs::path& folder) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
  }
  void expect_same(const LoadedModel& got) {
    const auto tensors = tensors_of(got), wanted = tensors_of(model_);
    ASSERT_EQ(tensors.size(), wanted.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      EXPECT_TRUE(at::equal(tensors[i].second, wanted[i].second)) << tensors[i].first;
  }

  LoadedModel model_;
};

TEST_F(Save, IsLoadedAsSaved) {
  for (const std::uint64_t shard : {kOneFile, std::uint64_t{1500}, std::uint64_t{1}}) {
    const fs::path out = folder_ / std::to_string(shard);
    std::int64_t done = 0;
    save_model(out, model_, shard, [&](std::int64_t now, std::int64_t) { done = now; });
    EXPECT_GT(done, 0);
    expect_same(load_model(out, at::kFloat, at::kCPU));
    EXPECT_EQ(fs::exists(out / "model.safetensors"), shard == kOneFile);
  }
  EXPECT_EQ(count(folder_ / "1"), 2 + tensors_of(model_).size()) << "a file for each tensor";
  save_policy(folder_ / "p.pt", model_);
  expect_same(load_model(folder_ / "in", at::kFloat, at::kCPU, folder_ / "p.pt"));
}

TEST_F(Save, KeepsTheConfigurationExceptTheDtype) {
  save_model(folder_ / "out", model_, kOneFile);
  auto wanted = nlohmann::ordered_json::parse(config_json(true));
  wanted.erase("torch_dtype");
  wanted["dtype"] = "float32";
  EXPECT_EQ(written_config("out").dump(), wanted.dump()) << "also the order";
}

TEST_F(Save, SaysThatAModelIsUntied) {
  model_.config.shape.tied_embeddings = false;
  model_.table = model::tensor_table(model_.config.shape);
  model_.weights = model::make_weights(model_.table, at::kBFloat16, at::kCPU);
  save_model(folder_ / "out", model_, kOneFile);
  EXPECT_EQ(written_config("out")["tie_word_embeddings"], false);
  EXPECT_EQ(written_config("out")["dtype"], "bfloat16");
}

TEST_F(Save, CopiesTheTokenizer) {
  write("in/tokenizer.json", "tok");
  write("in/generation_config.json", "gen");
  write("in/training_args.bin", "no");
  const LoadedModel model = new_model(folder_ / "in", at::kFloat, at::kCPU, 3);
  fs::remove_all(folder_ / "in");  // the checkpoint that a run resumed from may be gone
  save_model(folder_ / "out", model, kOneFile);
  EXPECT_EQ(read_text_file(folder_ / "out" / "tokenizer.json", "test"), "tok");
  EXPECT_EQ(read_text_file(folder_ / "out" / "generation_config.json", "test"), "gen");
  EXPECT_EQ(count(folder_ / "out"), 4u);
}

TEST_F(Save, RefusesAnExistingFolder) {
  write("file", "x");
  const auto save_to = [&](const std::string& name) {
    return message_of([&] { save_model(folder_ / name, model_, kOneFile); });
  };
  EXPECT_NE(save_to("in").find("exists and is not empty"), std::string::npos);
  EXPECT_NE(save_to("file").find("exists; choose another path"), std::string::npos);
  EXPECT_NE(save_to("no/such").find("there is no folder"), std::string::npos);
  fs::create_directories(folder_ / "empty");
  EXPECT_EQ(save_to("empty/"), "accepted");
  EXPECT_EQ(count(folder_), 3u);
}

TEST_F(Save, LeavesNothingWhenItFails) {
  const ProgressCallback stop = [](std::int64_t done, std::int64_t) {
    if (done > 1000) throw std::runtime_error("stop");
  };
  EXPECT_THROW(save_model(folder_ / "out", model_, 1500, stop), std::runtime_error);
  EXPECT_THROW(save_policy(folder_ / "out.pt", model_, stop), std::runtime_error);
  EXPECT_EQ(count(folder_), 1u) << "the folder 'in'";
}

}  // namespace
}  // namespace dpo::checkpoint
