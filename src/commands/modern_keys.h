// Sets defaults of defaults=modern that depend on the data or on the machine's memory.
#pragma once

#include <optional>

#include "config/compose.h"
#include "plan/inputs.h"

namespace dpo::commands {

// Allows the longest texts if the user gave no lengths, because the data is counted with these limits.
config::Resolved with_whole_texts(config::Resolved resolved, std::optional<std::int64_t> context);

// Chooses lengths, batch size, warm-up and intervals for this data, unless the user gave them.
config::Resolved with_keys_of_data(config::Resolved resolved, const plan::Lengths& lengths,
                                   std::optional<std::int64_t> context);

// Changes keys, also in `in`, if the run does not fit into memory otherwise. Only changes keys that do not
// affect the result of training, and adds a note.
config::Resolved with_keys_of_memory(config::Resolved resolved, plan::Inputs& in);

}  // namespace dpo::commands
