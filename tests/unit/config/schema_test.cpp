#include "config/schema.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "config/assets.h"
#include "config/key_hints.h"
#include "config/read.h"
#include "config/yaml_reader.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

TEST(Schema, KeysAreUniqueAndHelpIsThere) {
  std::set<std::string> keys;
  for (const Field& field : schema()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(field.help.ends_with('.')) << field.key;
    EXPECT_FALSE(field.expected.empty()) << field.key;
    const Path path = split_path(field.key);
    EXPECT_TRUE(path.size() == 1 || (path.size() == 2 && is_section(path[0]))) << field.key;
  }
}

// Checks that every key in a text's KEY=VALUE exists.
void check_assignments(std::string_view text) {
  for (std::size_t equals = text.find('='); equals != text.npos; equals = text.find('=', equals + 1)) {
    const std::size_t space = text.find_last_of(" (", equals);
    const std::string_view key = text.substr(space + 1, equals - space - 1);
    EXPECT_TRUE(find_field(key) || is_group(key) || key == "CUDA_VISIBLE_DEVICES") << key << " in: " << text;
  }
}

TEST(Schema, HasTheKeysThatOtherNamesAreTranslatedTo) {
  std::set<std::string_view> names;
  for (const OtherName& name : other_names()) {
    EXPECT_TRUE(find_field(name.ours) || (name.ours.empty() && !name.difference.empty()))
        << name.theirs << " -> " << name.ours;
    EXPECT_FALSE(find_field(name.theirs) || is_section(name.theirs)) << name.theirs << " is a key";
    EXPECT_TRUE(names.insert(name.theirs).second) << name.theirs << " twice";
    check_assignments(name.difference);
  }
}

TEST(Schema, KnowsWhichKeyWasMeant) {
  EXPECT_EQ(did_you_mean_key("loss.lr"), "; did you mean 'lr'?");  // another section
  EXPECT_EQ(did_you_mean_key("beta"), "; did you mean 'loss.beta'?");
  EXPECT_EQ(did_you_mean_key("name"), "");  // the key of several sections
  EXPECT_EQ(did_you_mean_key("model.name"), "; did you mean 'model.name_or_path'?");
  EXPECT_EQ(did_you_mean_key("training.num_train_epochs"),
            "; it is called 'n_epochs' here, and is a whole number");
  EXPECT_EQ(
      did_you_mean_key("max_steps"),
      "; it is called 'n_examples' here, and counts examples instead of updates: max_steps * batch_size");
}

TEST(Schema, KnowsWhatOthersSetAndNothingHereNeeds) {
  EXPECT_EQ(did_you_mean_key("metric_for_best_model"),
            "; it is called 'best_metric' here, and is loss/eval, rewards_eval/accuracies or another");
  EXPECT_EQ(did_you_mean_key("load_best_model_at_end"),
            "; it is called 'best_metric' here, which points RUN/BEST at the best checkpoint: "
            "best_metric=loss/eval");
  EXPECT_EQ(
      did_you_mean_key("dataset_mixture"),
      "; it is called 'datasets' here, and is a list: datasets=[one.jsonl,ORG/NAME]; data.weights weights "
      "them");
  EXPECT_EQ(
      did_you_mean_key("dataset_train_split"),
      "; a part of a data set on the hub is written after its name: datasets=[ORG/NAME:PART]; splits are "
      "found by the names of files");
  EXPECT_EQ(did_you_mean_key("rl"),
            "; it is called 'loss.name' here, and is chosen with its settings: loss=dpo, loss=ipo, ...");
  EXPECT_EQ(did_you_mean_key("max_completion_length"),
            "; a response may use what its prompt leaves of max_length; max_prompt_length limits prompts");
  EXPECT_EQ(did_you_mean_key("sample_packing"), "; sequences are always packed; there is nothing to set");
  EXPECT_EQ(did_you_mean_key_of_option("--push-to-hub", ""),
            "; 'dpo push RUN ORG/NAME' uploads a finished run");
}

TEST(Schema, KnowsWhichKeyAnOptionWasMeantToBe) {
  EXPECT_EQ(did_you_mean_key_of_option("--learning_rate", "1e-5"),
            "; write lr=1e-5 (KEY=VALUE, without dashes)");
  EXPECT_EQ(did_you_mean_key_of_option("--beta=0.1", "x"),
            "; write loss.beta=0.1 (KEY=VALUE, without dashes)");
  EXPECT_EQ(did_you_mean_key_of_option("--lr", ""), "; write lr=VALUE (KEY=VALUE, without dashes)");
  EXPECT_EQ(did_you_mean_key_of_option("--adam-epsilon=1", ""),
            "; write optimizer_eps=1 (KEY=VALUE, without dashes)");
  EXPECT_EQ(
      did_you_mean_key_of_option("--num-train-epochs", "2"),
      "; it is called 'n_epochs' here, and is a whole number; keys are written KEY=VALUE, without dashes");
  EXPECT_EQ(did_you_mean_key_of_option("--loss", "dpo"), "; write loss=dpo (KEY=VALUE, without dashes)");
  EXPECT_EQ(did_you_mean_key_of_option("--name", "x"), "");  // the key of several sections
  EXPECT_EQ(did_you_mean_key_of_option("--verbos", ""), "");
}

TEST(Schema, EveryDefaultIsValidOrMustBeSet) {
  for (const Field& field : schema()) {
    RunConfig config;
    if (field.default_text != "???") {
      EXPECT_TRUE(field.read(default_of(field), config)) << field.key;
    }
  }
}

std::string flipped(const Node& flag) { return flag.text == "true" ? "false" : "true"; }

// Writes each field and checks that only its own key changes, to find a field bound to the wrong member.
TEST(Schema, EveryKeyHasItsOwnMember) {
  for (const Field& field : schema()) {
    RunConfig config;
    RunConfig changed;
    const std::string other = field.expected.starts_with("a whole")         ? "7"
                              : field.expected.starts_with("a num")         ? "0.25"
                              : field.expected.starts_with("true")          ? flipped(field.write(config))
                              : field.expected.starts_with("a list of two") ? "[0.25, 0.5]"
                              : field.expected.starts_with("a list")        ? "[z]"
                              : field.expected.starts_with("a map of c")    ? "{prompt: z}"
                              : field.expected.starts_with("a map of v")    ? "{y: z}"
                              : field.expected.starts_with("a map of num")  ? "{z: 0.25}"
                              : field.expected.starts_with("a map of who")  ? "{z: 7}"
                              : field.choices.empty()                       ? "z"
                                                                            : field.choices.back();
    const Node document = read_default_yaml("v: " + other);
    ASSERT_TRUE(field.read(document.children[0], changed)) << field.key;
    for (const Field& each : schema())
      EXPECT_EQ(equal_values(each.write(config), each.write(changed)), each.key != field.key)
          << field.key << " and " << each.key;
  }
}

TEST(Schema, NullIsForNullableKeysOnly) {
  const Node null = make_scalar(Node::Kind::Null, "null", {});
  for (const Field& field : schema()) {
    RunConfig config;
    EXPECT_EQ(field.read(null, config), field.nullable) << field.key;
  }
}

TEST(Assets, AreNamedWithoutTheirExtension) {
  const Words losses = assets_in("loss");
  EXPECT_EQ(losses.size(), find_field("loss.name")->choices.size());
  EXPECT_EQ(losses.front(), "aot");
  EXPECT_TRUE(assets_in("los").empty());
  EXPECT_TRUE(asset("model/pythia28.yaml"));
  EXPECT_FALSE(asset("model/pythia28"));
}

}  // namespace
}  // namespace dpo::config
