#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dpo::config {

// A key of another trainer (transformers, TRL, peft, axolotl, LLaMA-Factory) and our equivalent. If there is
// none, `difference` explains why nothing needs to be set.
struct OtherName {
  std::string_view theirs, ours;
  std::string_view difference = {};  // difference in meaning or values; completes a sentence
};

// Returns the foreign keys that have an equivalent with another name here, or need none.
const std::vector<OtherName>& other_names();

// Returns "; did you mean 'loss.beta'?" or "; it is called 'lr' here" for a key that is misspelled, lacks its
// section, has a wrong one, or is another trainer's. Otherwise returns "".
std::string did_you_mean_key(std::string_view key);

// Returns a hint such as "; write lr=1e-5" for a command-line option of other programs, --learning_rate or
// --lr=1e-5. `value` is the option's possible value, or "".
std::string did_you_mean_key_of_option(std::string_view option, std::string_view value);

}  // namespace dpo::config
