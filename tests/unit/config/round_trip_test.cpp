// Checks that the output of `dpo config` is a configuration that gives the same output again.
#include <algorithm>

#include <gtest/gtest.h>

#include "config/print.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

// Removes comments, which start at the last " # " outside quotes. The tests use no # in values.
std::string without_comments(const std::string& yaml) {
  std::string out;
  for (std::size_t start = 0; start < yaml.size();) {
    const std::size_t end = yaml.find('\n', start);
    const std::string line = yaml.substr(start, end - start);
    std::string value = line.substr(0, line.rfind("  # "));
    value.erase(value.find_last_not_of(' ') + 1);
    out += value + "\n";
    start = end + 1;
  }
  return out;
}

TEST(RoundTrip, PrintedConfigurationsGiveTheSameAgain) {
  const Variable variable("DPO_TEST_SET", "8");
  const std::vector<Words> runs = {
      {},
      {"loss=dpo", "loss.beta=0.1", "loss.label_smoothing=0.2", "model=pythia28"},
      {"loss=ipo", "loss.beta=3"},
      {"adapter=lora", "adapter.r=8", "adapter.targets=['.*\\.(q|v)_proj', up_proj]",
       "adapter.rank_pattern={q_proj: 32}", "adapter.alpha_pattern={'mlp.up_proj': 8}",
       "adapter.merge_on_save=true"},
      {"loss={name: dpo, beta: 1}"},
      {"datasets=[hh, 'a b', \"c'd\"]", "local_dirs=['[x]', '{y}', '- z', '5', 'null', 'yes', '~', ' ']"},
      {"local_dirs=['#', ': ', '*a', '&b', '!c', '%d', '@e', '|', '1e5', '0x1F', '-', '?', 'a#b', '---', "
       "'...']"},
      {"exp_name='it\\'s \"quoted\" \\\\ back'"},
      {"exp_name=\\${lr}"},
      {"exp_name='\\\\\\${lr}'"},
      {"exp_name=caf\xc3\xa9"},
      {"lr=1e-300", "max_grad_norm=123456789.125", "minimum_log_interval_secs=0"},
      {"batch_size=${oc.env:DPO_TEST_SET}", "max_length=${batch_size}"},
      {"~n_epochs", "n_examples=1000000000", "seed=9223372036854775807"},
      {"+foo=1", "+bar={a: [1, 2.5, {b: null}], ' c': x}", "+model.extra=???", "+wandb.note='a: b'", "+e={}",
       "+f=[]"},
      {"+nan=nan", "+inf=-inf", "+text='.nan'", "+big=123456789012345678901234567890", "+name={+x: 1}"},
      {"+default=[x]", "+b.0_000=1", "+null=1", "+" + std::string(256, 'k') + "=1", "+g=[{h: ???}]",
       "+c={1: 2, yes: 3}", "+plus.deep.er=1", "+$dollar=2", "+a-b=3"},
  };
  const TempFolder folder;
  for (const Words& words : runs) {
    const Resolved first = compose({with_needed(words), {}, {}});
    const auto file = folder.write("printed.yaml", to_yaml(first));
    const Resolved second = compose({{}, file, {}});
    EXPECT_EQ(without_comments(to_yaml(second)), without_comments(to_yaml(first)));
    EXPECT_EQ(to_json(second), to_json(first));
  }
}

TEST(RoundTrip, OriginsStandInAnAlignedComment) {
  const std::string yaml = to_yaml(compose({with_needed({"lr=1e-6"}), {}, {}}));
  EXPECT_NE(yaml.find("\nlr: 1e-06"), std::string::npos);
  std::size_t column = std::string::npos;
  std::size_t comments = 0;
  for (std::size_t start = 0; start < yaml.size(); start = yaml.find('\n', start) + 1) {
    const std::string line = yaml.substr(start, yaml.find('\n', start) - start);
    const std::size_t at = line.find("  # ");
    if (at == std::string::npos) continue;
    if (++comments == 1) column = at;
    EXPECT_EQ(at, column) << line;
  }
  EXPECT_GT(comments, 30u);
}

TEST(RoundTrip, AFileCanBeChangedOnTheWay) {
  const TempFolder folder;
  const auto file =
      folder.write("run.yaml", to_yaml(compose({with_needed({"loss=dpo", "loss.beta=0.1"}), {}, {}})));
  EXPECT_DOUBLE_EQ(compose({{"loss.beta=0.5"}, file, {}}).values.loss.beta, 0.5);
  EXPECT_EQ(compose({{"loss=sft"}, file, {}}).values.loss.name, Loss::sft);
}

}  // namespace
}  // namespace dpo::config
