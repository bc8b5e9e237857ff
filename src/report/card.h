#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/evaluations.h"

namespace dpo::report {

// Facts about the run that trained a model.
struct CardRun {
  std::string base;                        // display name of the model that the run started from
  std::string base_model = {};             // its name on the hub; empty if it is not known to be there
  std::string weights = {};                // weights that the run started from, if not the model's own
  std::vector<std::string> data = {};      // display names
  std::vector<std::string> datasets = {};  // names of those that are on the hub
  std::string loss;
  std::int64_t examples = 0, updates = 0;
  std::int64_t eval_examples = 0;
  std::vector<Evaluation> evaluations = {};  // the last one is of this model, unless `examples` is larger
  std::string chosen_by = {};                // the metric that chose this checkpoint; empty if none did
  std::vector<std::pair<std::string, std::string>> settings = {};
  std::string command = {};  // has the settings of the run, without paths of this machine
};

struct CardFacts {
  std::string repository, revision = "main";
  bool has_chat_template = false;
  bool is_adapter = false;          // LoRA in PEFT's format, without the model's own weights
  std::optional<CardRun> run = {};  // none if nothing is known about the training
};

// Returns a README.md for the Hugging Face hub: metadata as YAML, then Markdown. It states only what the run
// shows. All values are escaped.
std::string model_card(const CardFacts& facts);

// is_model_card returns true for a README.md from model_card, even if it was edited; is_unchanged_card only
// if it was not. The last line of the card has the hash of the rest.
bool is_model_card(const std::string& text);
bool is_unchanged_card(const std::string& text);

}  // namespace dpo::report
