#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dpo::config {

// A key of other trainers (transformers, TRL, peft, axolotl, LLaMA-Factory), and ours, if there is one: else
// `difference` says why there is nothing to set.
struct OtherName {
  std::string_view theirs, ours;
  std::string_view difference = {};  // in meaning or values, as the rest of the sentence
};

// Those that have an equal here and another name, or need none.
const std::vector<OtherName>& other_names();

// "; did you mean 'loss.beta'?", "; it is called 'lr' here", for a key that is misspelt, lacks its section,
// has another one, or is that of another trainer; otherwise empty.
std::string did_you_mean_key(std::string_view key);

// The same for an option of a command line, --learning_rate or --lr=1e-5, that other programs have: "; write
// lr=1e-5". `value`: what may be its value, or empty.
std::string did_you_mean_key_of_option(std::string_view option, std::string_view value);

}  // namespace dpo::config
