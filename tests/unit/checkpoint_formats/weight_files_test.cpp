#include "checkpoint/formats/weight_files.h"

#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/formats/torch_archive.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

class WeightFilesTest : public testing::Test {
 protected:
  WeightFilesTest() : folder_(fs::path(testing::TempDir()) / "dpo_weight_files_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WeightFilesTest() override { fs::remove_all(folder_); }

  TensorToWrite source(const std::string& name, std::vector<float>& values) {
    return {name, Dtype::F32, {static_cast<std::int64_t>(values.size())}, [&values] {
              return std::as_bytes(std::span(values));
            }};
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::string message_of(const fs::path& path) {
    try {
      WeightFiles files(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::vector<float> values_of(const WeightFiles& files, const std::string& name) {
    for (const StoredTensor& tensor : files.tensors()) {
      if (tensor.name != name) continue;
      std::vector<float> values(tensor.size / sizeof(float));
      files.read(tensor, 0, std::as_writable_bytes(std::span(values)));
      return values;
    }
    return {};
  }

  fs::path folder_;
  std::vector<float> a_{1, 2, 3}, b_{4, 5}, other_{9};
};

TEST_F(WeightFilesTest, ReadsOneFile) {
  write_safetensors(folder_ / "model.safetensors", {source("a", a_), source("b", b_)});
  for (const fs::path& path : {folder_, folder_ / "model.safetensors"}) {
    const WeightFiles files(path);
    EXPECT_EQ(files.origin(), folder_ / "model.safetensors");
    EXPECT_EQ(files.tensors().size(), 2u);
    EXPECT_EQ(values_of(files, "a"), a_);
    EXPECT_EQ(values_of(files, "b"), b_);
  }
}

TEST_F(WeightFilesTest, ReadsWhatTorchSaveWouldWrite) {
  write_policy(folder_ / "policy.pt", {source("a", a_), source("b", b_)}, {{"tied", "b"}});
  const WeightFiles files(folder_ / "policy.pt");
  ASSERT_EQ(files.tensors().size(), 3u);
  EXPECT_EQ(values_of(files, "a"), a_);
  EXPECT_EQ(values_of(files, "tied"), b_);
  EXPECT_EQ(files.tensors()[2].offset, files.tensors()[1].offset) << "one storage for both names";
  for (const StoredTensor& tensor : files.tensors()) EXPECT_EQ(tensor.offset % 64, 0u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "temporary files are left";
}

TEST_F(WeightFilesTest, ReadsSeveralByTheirIndex) {
  write_safetensors(folder_ / "1.safetensors", {source("a", a_), source("b", other_)});
  write_safetensors(folder_ / "2.safetensors", {source("b", b_)});
  write("model.safetensors.index.json", R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  const WeightFiles files(folder_);
  EXPECT_EQ(files.tensors().size(), 2u);
  EXPECT_EQ(values_of(files, "a"), a_);
  EXPECT_EQ(values_of(files, "b"), b_) << "the index decides which file it is taken from";
}

TEST_F(WeightFilesTest, NamesWhatIsMissing) {
  write_safetensors(folder_ / "1.safetensors", {source("a", a_)});
  write("model.safetensors.index.json",
        R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "3.safetensors"}})");
  const std::string message = message_of(folder_);
  EXPECT_NE(message.find("its file 2.safetensors is missing"), std::string::npos) << message;
  EXPECT_NE(message.find("its file 3.safetensors is missing"), std::string::npos) << message;
  write("model.safetensors.index.json", R"({"weight_map": {"a": "1.safetensors", "b": "1.safetensors"}})");
  EXPECT_NE(message_of(folder_).find("tensor 'b' is not in 1.safetensors"), std::string::npos);
}

TEST_F(WeightFilesTest, RefusesOtherFormatsWithAHint) {
  EXPECT_NE(message_of(folder_ / "none").find("no such file or folder"), std::string::npos);
  EXPECT_NE(message_of(folder_).find("expected one of model.safetensors, model.safetensors.index.json"),
            std::string::npos);
  write("model.gguf", "GGUF");
  EXPECT_NE(message_of(folder_).find("GGUF files are not supported"), std::string::npos);
  EXPECT_NE(message_of(folder_ / "model.gguf").find("not a supported weight file"), std::string::npos);
  write("adapter_model.safetensors", "");
  EXPECT_NE(message_of(folder_).find("'dpo merge' merges it into its model"), std::string::npos);
  write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  EXPECT_NE(message_of(folder_).find("a Git LFS pointer"), std::string::npos);
  write("old.bin", "\x80\x02");
  EXPECT_NE(message_of(folder_ / "old.bin").find("from before PyTorch 1.6"), std::string::npos);
}

TEST_F(WeightFilesTest, AFileThatShrinksMeanwhileIsAnError) {
  write_safetensors(folder_ / "model.safetensors", {source("a", a_)});
  const WeightFiles files(folder_);
  fs::resize_file(folder_ / "model.safetensors", 20);
  EXPECT_THROW(values_of(files, "a"), UserError);
}

TEST(StoredTensors, KnowWhetherTheyAreContiguous) {
  const auto is_contiguous = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    return StoredTensor{"", Dtype::F32, std::move(shape), std::move(strides), 0, 0, 0}.is_contiguous();
  };
  EXPECT_TRUE(is_contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 77, 1}));
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_TRUE(is_contiguous({0, 3}, {7, 7}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(is_contiguous({2, 3}, {4, 1}));
  EXPECT_FALSE(is_contiguous({2}, {0}));
}

}  // namespace
}  // namespace dpo::checkpoint
