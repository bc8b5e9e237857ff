#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/evaluations.h"

namespace dpo::report {

// What is known about the run that trained a model.
struct CardRun {
  std::string base;                        // the model that it started from, as it is shown
  std::string base_model = {};             // its name on the hub; "" if it is not known to be there
  std::string weights = {};                // if it started from others than that model's own
  std::vector<std::string> data = {};      // as they are shown
  std::vector<std::string> datasets = {};  // those that are on the hub
  std::string loss;
  std::int64_t examples = 0, updates = 0;
  std::int64_t eval_examples = 0;
  std::vector<Evaluation> evaluations = {};  // the last one is of this model, unless `examples` is larger
  std::string chosen_by = {};                // the metric of the evaluations, if one chose this checkpoint
  std::vector<std::pair<std::string, std::string>> settings = {};
  std::string command = {};  // with the settings of the run; without paths of this machine
};

struct CardFacts {
  std::string repository, revision = "main";
  bool has_chat_template = false;
  bool is_adapter = false;          // LoRA of PEFT's form, without the model's own weights
  std::optional<CardRun> run = {};  // none: nothing is known about the training
};

// README.md of a model on the Hugging Face hub: metadata as YAML, then Markdown. It says only what the run
// shows; all values are escaped.
std::string model_card(const CardFacts& facts);

// Whether a README.md is such a card, even if it was edited, and whether it is still as it was generated: its
// last line has the hash of the rest.
bool is_model_card(const std::string& text);
bool is_unchanged_card(const std::string& text);

}  // namespace dpo::report
