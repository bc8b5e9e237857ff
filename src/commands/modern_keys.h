// Defaults of defaults=modern that depend on the data or on the memory of the machine.
#pragma once

#include <optional>

#include "config/compose.h"
#include "plan/inputs.h"

namespace dpo::commands {

// Allows the longest texts, where nobody gave lengths: the data are counted with them.
config::Resolved with_whole_texts(config::Resolved resolved, std::optional<std::int64_t> context);

// Chooses lengths, batch, warm-up and intervals for this data, where nobody gave them.
config::Resolved with_keys_of_data(config::Resolved resolved, const plan::Lengths& lengths,
                                   std::optional<std::int64_t> context);

// If the run does not fit in memory otherwise: changes what does not change the result of training, in `in`
// too. A note says so.
config::Resolved with_keys_of_memory(config::Resolved resolved, plan::Inputs& in);

}  // namespace dpo::commands
