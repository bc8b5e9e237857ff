#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dpo::config {

// Returns the end of a message about a value that is not one of the key's names: "; write
// optimizer_state=8bit", "; did you mean 'AdamW'?", or "". Values of other trainers (TRL, transformers, peft,
// axolotl, LLaMA-Factory, Unsloth, torchtune) are recognized, even if dpo has no equivalent.
std::string hint_for_value(std::string_view key, std::string_view value,
                           const std::vector<std::string>& names);

}  // namespace dpo::config
