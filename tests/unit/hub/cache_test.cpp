#include "hub/cache.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "hub/fetch.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  Cache() : folder_(fs::path(testing::TempDir()) / "dpo_hub_cache_test") {
    fs::create_directories(folder_);
    setenv("HF_HUB_CACHE", folder_.c_str(), 1);
  }
  ~Cache() override {
    unsetenv("HF_HUB_CACHE");
    fs::remove_all(folder_);
  }

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }

  fs::path folder_;
  const std::string commit_ = std::string(40, 'a');
};

TEST_F(Cache, HoldsModelsAndDataSetsSideBySide) {
  write("datasets--Anthropic--hh-rlhf/refs/main", commit_);
  write("datasets--Anthropic--hh-rlhf/snapshots/" + commit_ + "/x", "");
  const auto found = cached_snapshot(RepositoryKind::Dataset, "Anthropic/hh-rlhf");
  EXPECT_EQ(found, folder_ / "datasets--Anthropic--hh-rlhf/snapshots" / commit_);
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "Anthropic/hh-rlhf"));
}

TEST_F(Cache, DoesNotFollowARefThatIsNoCommit) {
  write("models--a--b/refs/main", "../../..");
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "a/b"));
  write("models--a--b/refs/main", "");
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "a/b"));
  write("models--a--b/refs/main", commit_);  // but its files are missing
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "a/b"));
}

TEST_F(Cache, KnowsWhatARevisionIs) {
  for (const char* revision : {"v1.0+cu12", "pr#1", "a@b", "é", "refs/pr/1"})
    EXPECT_TRUE(parse_repository(RepositoryKind::Model, std::string("a/b@") + revision)) << revision;
  for (const char* revision : {"", "..", "a/../b", "/a", "a b", "a\nb", "a:b", "a~1"})
    EXPECT_FALSE(parse_repository(RepositoryKind::Model, std::string("a/b@") + revision)) << revision;
}

TEST_F(Cache, KnowsWhatANameIs) {
  for (const char* name : {"gpt2", "EleutherAI/pythia-2.8b", "a_b/c.d"})
    EXPECT_TRUE(is_repository_name(name)) << name;
  for (const char* name : {"", "/a", "a/", "a/b/c", "a/../b", "a b", "a--b/c"})
    EXPECT_FALSE(is_repository_name(name)) << name;
  EXPECT_FALSE(is_repository_name(std::string(97, 'a')));
}

TEST_F(Cache, TellsNamesOfTheHubFromFiles) {
  for (const char* name : {"gpt2", "EleutherAI/pythia-2.8b", "meta-llama/Llama-3.1-8B"})
    EXPECT_TRUE(may_be_on_the_hub(name)) << name;
  for (const char* name :
       {"nosuch.json", "nosuch.jinja", "my/pairs.jsonl", "policy.pt", "./model", "../model", "/a/b", "a/b/c"})
    EXPECT_FALSE(may_be_on_the_hub(name)) << name;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directories(folder_ / "runs");
  std::filesystem::current_path(folder_);
  EXPECT_FALSE(may_be_on_the_hub("runs/sft"));  // a folder of this machine
  std::filesystem::current_path(before);
}

TEST_F(Cache, SuggestsAFolderBeside) {
  write("models/pythia-70m/config.json", "{}");
  write("models/other/README.md", "");
  EXPECT_EQ(did_you_mean_folder((folder_ / "models/pythia-70").string()),
            "; did you mean '" + (folder_ / "models/pythia-70m").string() + "'?");
  EXPECT_EQ(did_you_mean_folder((folder_ / "models/othr").string()), "");
  EXPECT_EQ(did_you_mean_folder((folder_ / "nosuch").string()), "");
  EXPECT_EQ(did_you_mean_folder((folder_ / "models/pythia-70/").string()),
            "; did you mean '" + (folder_ / "models/pythia-70m").string() + "'?");
  // ORG/NAME may be a correct name, so only a folder called NAME is suggested.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / "models");
  EXPECT_EQ(did_you_mean_folder("EleutherAI/pythia-70m"), "; did you mean 'pythia-70m'?");
  EXPECT_EQ(did_you_mean_folder("EleutherAI/pythia-70"), "");
  EXPECT_EQ(did_you_mean_folder("pythia-70"), "; did you mean 'pythia-70m'?");
  std::filesystem::current_path(before);
  EXPECT_TRUE(is_file_name("x.jinja"));
  EXPECT_FALSE(is_file_name("pythia-2.8b"));
}

TEST_F(Cache, IsWhereTheVariablesSay) {
  EXPECT_EQ(cache_folder(), folder_);
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", "/h", 1);
  EXPECT_EQ(cache_folder(), "/h/hub");
  setenv("SCRATCH", "/s", 1);
  setenv("HF_HOME", "$SCRATCH/${SCRATCH}x/$NO_SUCH_VARIABLE", 1);
  EXPECT_EQ(cache_folder(), "/s//sx/$NO_SUCH_VARIABLE/hub");
  unsetenv("HF_HOME");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_folder(), "/x/huggingface/hub");
  setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(cache_folder(), "/old");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HUGGINGFACE_HUB_CACHE");
}

TEST_F(Cache, IsAllThereIsOffline) {
  setenv("TRANSFORMERS_OFFLINE", "1", 1);
  EXPECT_TRUE(is_offline());
  setenv("HF_HUB_OFFLINE", "0", 1);
  EXPECT_FALSE(is_offline());
  unsetenv("HF_HUB_OFFLINE");
  unsetenv("TRANSFORMERS_OFFLINE");
}

TEST_F(Cache, KnowsRevisions) {
  write("models--a--b/refs/v1", commit_);
  write("models--a--b/snapshots/" + commit_ + "/x", "");
  const fs::path snapshot = folder_ / "models--a--b/snapshots" / commit_;
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "a/b"));
  EXPECT_EQ(cached_snapshot(RepositoryKind::Model, "a/b@v1"), snapshot);
  EXPECT_EQ(cached_snapshot(RepositoryKind::Model, "a/b@" + commit_), snapshot);
  for (const char* name : {"a/b@", "a/b@../v1", "a/b@/v1", "@v1"})
    EXPECT_FALSE(parse_repository(RepositoryKind::Model, name)) << name;
  EXPECT_EQ(to_string(*parse_repository(RepositoryKind::Model, "a/b@refs/pr/1")), "a/b@refs/pr/1");
}

TEST_F(Cache, IsLaidOutAsThePythonClientDoesIt) {
  const Repository repository{RepositoryKind::Dataset, "a/b", "refs/pr/1"};
  write("datasets--a--b/blobs/etag", "content");
  link_blob(repository, commit_, "sub/file", "etag");
  write_ref(repository, commit_);
  const fs::path snapshot = folder_ / "datasets--a--b/snapshots" / commit_;
  EXPECT_EQ(fs::read_symlink(snapshot / "sub/file"), "../../../blobs/etag");
  EXPECT_EQ(read_text_file(folder_ / "datasets--a--b/refs/refs/pr/1", "test"), commit_);
  EXPECT_EQ(cached_snapshot(RepositoryKind::Dataset, "a/b@refs/pr/1"), snapshot);
  EXPECT_FALSE(cached_tree(repository, commit_));
  write_tree(repository, commit_, {{"x", 3, commit_}});
  EXPECT_EQ(cached_tree(repository, commit_)->front().path, "x");
  {
    const BlobLock lock(repository, "etag", [] {});
  }
  EXPECT_TRUE(fs::exists(folder_ / ".locks/datasets--a--b/etag.lock"));
}

TEST_F(Cache, CanTellWhetherAModelIsComplete) {
  const Repository model{RepositoryKind::Model, "a/b"};
  const auto has = [&](Need need) { return is_cached(model, {need}); };
  EXPECT_FALSE(has(Need::config));
  const std::string snapshot = "models--a--b/snapshots/" + commit_ + "/";
  write("models--a--b/refs/main", commit_);
  write(snapshot + "config.json", "{}");
  EXPECT_TRUE(has(Need::config));
  EXPECT_FALSE(has(Need::tokenizer));
  write(snapshot + "vocab.json", "{}");
  write(snapshot + "merges.txt", "");
  EXPECT_FALSE(has(Need::tokenizer));  // the configuration of the tokenizer may be missing
  write(snapshot + "tokenizer_config.json", "{}");
  EXPECT_TRUE(has(Need::tokenizer));
  EXPECT_FALSE(has(Need::weights));
  write(snapshot + "model.safetensors.index.json", R"({"weight_map": {"x": "model-1.safetensors"}})");
  EXPECT_FALSE(has(Need::weights));
  write(snapshot + "model-1.safetensors", "");
  EXPECT_TRUE(has(Need::weights));
  // If the list of files is known, it decides.
  write_tree(model, commit_, {{"config.json", 2, commit_}, {"tokenizer.json", 2, commit_}});
  EXPECT_FALSE(has(Need::tokenizer));
  // Weights in any format suffice.
  write_tree(model, commit_, {{"config.json", 2, commit_}, {"model.safetensors", 2, commit_}});
  EXPECT_TRUE(has(Need::weights));
}

TEST_F(Cache, CannotTellWhetherADataSetIsCompleteWithoutItsList) {
  const Repository data{RepositoryKind::Dataset, "a/b"};
  const Wanted wanted{Need::data, [](const std::vector<std::string>& paths) { return paths; }};
  write("datasets--a--b/refs/main", commit_);
  write("datasets--a--b/snapshots/" + commit_ + "/one/train.jsonl", "");
  EXPECT_FALSE(is_cached(data, wanted));
  write_tree(data, commit_, {{"one/train.jsonl", 0, commit_}});
  EXPECT_TRUE(is_cached(data, wanted));
  write_tree(data, commit_, {{"one/train.jsonl", 0, commit_}, {"two/train.jsonl", 0, commit_}});
  EXPECT_FALSE(is_cached(data, wanted));
}

TEST_F(Cache, UsesTheCommitsOfARun) {
  const std::string other(40, 'b');
  const Repository model{RepositoryKind::Model, "a/b"};
  write("models--a--b/refs/main", commit_);
  use_commits({{"a/b", other}, {"datasets/a/b", "../../x"}});
  EXPECT_EQ(cached_commit(model), other);
  EXPECT_EQ(cached_branch(model), commit_);
  EXPECT_FALSE(cached_commit({RepositoryKind::Dataset, "a/b"}));
  use_commits({});
  EXPECT_EQ(cached_commit(model), commit_);
}

TEST_F(Cache, IsFilledByACommand) {
  if (!http::is_available()) GTEST_SKIP() << "built without libcurl";
  setenv("HF_HUB_OFFLINE", "0", 1);
  EXPECT_EQ(fetch_command(RepositoryKind::Dataset, "a/b"), "dpo fetch datasets/a/b");
  setenv("HF_HUB_OFFLINE", "yes", 1);
  EXPECT_EQ(fetch_command(RepositoryKind::Model, "a/b"), "HF_HUB_OFFLINE=0 dpo fetch a/b");
  unsetenv("HF_HUB_OFFLINE");
}

TEST_F(Cache, AndTokenFollowTheEnvironment) {
  setenv("HF_ENDPOINT", "http://mirror/", 1);
  EXPECT_EQ(endpoint(), "http://mirror");
  setenv("HF_ENDPOINT", "mirror", 1);  // libcurl would assume http and send the token in clear text
  EXPECT_THROW(endpoint(), UserError);
  unsetenv("HF_ENDPOINT");
  EXPECT_EQ(endpoint(), "https://huggingface.co");
  setenv("HF_TOKEN", " hf_x\n", 1);
  EXPECT_EQ(token(), "hf_x");
  setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
  EXPECT_EQ(token(), "");
  unsetenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
  unsetenv("HF_TOKEN");
  setenv("HUGGING_FACE_HUB_TOKEN", "hf_old", 1);
  EXPECT_EQ(token(), "hf_old");
  unsetenv("HUGGING_FACE_HUB_TOKEN");
  write("token", "hf_y\n");
  setenv("HF_TOKEN_PATH", (folder_ / "token").c_str(), 1);
  EXPECT_EQ(token(), "hf_y");
  unsetenv("HF_TOKEN_PATH");
}

}  // namespace
}  // namespace dpo::hub
