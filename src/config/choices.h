// Keys whose value is one of a few names. The names are spelled in choices.cpp and nowhere else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dpo::config {

enum class Trainer { Basic, Fsdp, TensorParallel };

enum class Optimizer { RMSprop, Adam, AdamW, SGD, Adafactor };

enum class TrainOn { assistant, last };  // of a conversation: all that the assistant says, or its last turn

enum class Schedule { constant, linear, cosine };  // of the learning rate

enum class Dtype {
  float32,
  bfloat16,
  float16,
  automatic
};  // the last only of fsdp_policy_mp: the plan decides

// docs/losses.md says what each computes.
enum class Loss {
  sft,
  dpo,
  ipo,
  hinge,
  robust,
  exo_pair,
  nca_pair,
  sppo_hard,
  apo_zero,
  apo_down,
  discopop,
  bco_pair,
  sigmoid_norm,
  aot,
  simpo,
  cpo,
  orpo,
  plackett_luce,
  kto,
};

// As written in YAML, on the command line and in the files of a run.
std::string name_of(Trainer trainer);
std::string name_of(Optimizer optimizer);
std::string name_of(TrainOn train_on);
std::string name_of(Schedule schedule);
std::string name_of(Dtype dtype);
std::string name_of(Loss loss);

// The same of a key that may be null.
template <class Choice>
std::string name_of(std::optional<Choice> choice) {
  return choice ? name_of(*choice) : "null";
}

template <class Choice>
concept NamedChoice = std::is_enum_v<Choice> && requires(Choice choice) {
  name_of(choice);
};

// All values in the order of their declaration.
template <NamedChoice Choice>
std::vector<Choice> all_choices() {
  std::vector<Choice> all;
  for (int i = 0; !name_of(static_cast<Choice>(i)).empty(); ++i) all.push_back(static_cast<Choice>(i));
  return all;
}

template <NamedChoice Choice>
std::optional<Choice> find_choice(std::string_view name) {
  for (const Choice choice : all_choices<Choice>())
    if (name_of(choice) == name) return choice;
  return std::nullopt;
}

template <NamedChoice Choice>
std::vector<std::string> names_of(const std::vector<Choice>& choices) {
  std::vector<std::string> names;
  for (const Choice choice : choices) names.push_back(name_of(choice));
  return names;
}

}  // namespace dpo::config
