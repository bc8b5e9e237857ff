#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dpo::config {

// The end of a message about a value that is none of the names that a key may have: "; write
// optimizer_state=8bit", "; did you mean 'AdamW'?", or empty. Names of other trainers (TRL, transformers,
// peft, axolotl, LLaMA-Factory, Unsloth, torchtune) get an answer, even if dpo has no equivalent.
std::string hint_for_value(std::string_view key, std::string_view value,
                           const std::vector<std::string>& names);

}  // namespace dpo::config
