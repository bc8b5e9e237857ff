#include "config/explain.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/schema.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

std::string explained(const std::string& name, const Words& words = {}) {
  return explain(name, compose({words, {}, {}, required_keys()}));
}

TEST(Keys, AllAreListedWithTheirDefaults) {
  const std::string text = all_keys_text();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  for (const Field& field : schema()) {
    const std::string value = field.default_text == "???" ? "required" : field.default_text;
    const auto at = text.find("\n  " + field.key + " ");
    ASSERT_NE(at, std::string::npos) << field.key;
    EXPECT_TRUE(text.substr(at + 1, text.find('\n', at + 1) - at - 1).ends_with(" " + value)) << field.key;
  }
}

TEST(Keys, TheMainOnesAreTen) {
  const std::string text = main_keys_text();
  std::istringstream lines(text);
  int keys = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    keys += line[2] != ' ';
  }
  EXPECT_EQ(keys, 10);
  expect_has(text, "  lr                  5e-7         Learning rate");
}

TEST(Explain, AKey) {
  EXPECT_EQ(explained("lr"),
            "lr\n  Learning rate after warm-up.\n  type     a number > 0 and <= 1e+38\n  default  5e-7\n"
            "  now      the default\n");
  expect_has(explained("lr", {"lr=3e-6"}), "  now      3e-06 (command line: lr=3e-6)\n");
  expect_has(explained("trainer"), "  type     one of BasicTrainer, FSDPTrainer, TensorParallelTrainer\n");
  expect_has(explained("exp_name"), "  default  required\n  now      not set\n");
  expect_has(explained("loss.gamma"), "  losses   simpo\n  now      not used with loss=sft\n");
  expect_has(explained("data.columns"), "  names    prompt, chosen, rejected");
}

TEST(Explain, ASection) {
  const std::string text = explained("loss");
  expect_has(text, "loss=NAME chooses a preset: aot, ");
  for (const Field& field : schema())
    EXPECT_EQ(text.find("\n" + field.key + "\n") != std::string::npos, field.key.starts_with("loss."))
        << field.key;
}

TEST(Explain, SuggestsTheNearest) {
  const auto problem = [](const char* name) {
    try {
      return explained(name);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(problem("lrr"), "lrr: unknown key ('dpo config' alone lists all); did you mean 'lr'?");
  expect_has(problem("beta"), "did you mean 'loss.beta'?");
  expect_has(problem("los"), "did you mean 'loss'?");
  expect_has(problem("zzzzz"), "unknown key");
}

TEST(Paths, MayBeginWithATilde) {
  const Variable home("HOME", "/home/me");
  const RunConfig run =
      compose({with_needed({"local_run_dir=~/r", "datasets=[hh,~/a.jsonl]", "local_dirs=['~/c']",
                            "model.name_or_path=~/m", "model.archive=~/w.pt", "dataset_paths.hh=~/hh",
                            "model.tokenizer_name_or_path=~/t", "plan.lengths=~/l.yaml",
                            "data.limits={'~/a.jsonl': 3}"}),
               {},
               {}})
          .values;
  EXPECT_EQ(run.local_run_dir, "/home/me/r");
  EXPECT_EQ(run.datasets, (Words{"hh", "/home/me/a.jsonl"}));
  EXPECT_EQ(run.local_dirs, Words{"/home/me/c"});
  EXPECT_EQ(run.model.name_or_path, "/home/me/m");
  EXPECT_EQ(run.model.archive, "/home/me/w.pt");
  EXPECT_EQ(run.model.tokenizer_name_or_path, "/home/me/t");
  EXPECT_EQ(run.dataset_paths.hh, "/home/me/hh");
  EXPECT_EQ(run.plan.lengths, "/home/me/l.yaml");
  EXPECT_EQ(run.data.limits, (std::map<std::string, std::int64_t>{{"/home/me/a.jsonl", 3}}));
}

TEST(Notes, APresetThatReplacesASectionOfAFileSaysWhatIsDropped) {
  const TempFolder folder;
  const auto file = folder.write("my.yaml", "lr: 1e-6\nmodel:\n  archive: a\n  policy_dtype: bfloat16\n");
  const Resolved resolved = compose({{"exp_name=e", "model=pythia28"}, file, {}});
  ASSERT_EQ(resolved.notes.size(), 1u);
  expect_has(resolved.notes[0], "model=pythia28 replaces the whole section 'model' of ");
  expect_has(resolved.notes[0], "dropped: model.archive, model.policy_dtype");
  EXPECT_FALSE(resolved.values.model.archive);
  EXPECT_TRUE(compose({{"exp_name=e", "model.name_or_path=m"}, file, {}}).notes.empty());
}

}  // namespace
}  // namespace dpo::config
