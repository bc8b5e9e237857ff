// Finds keys that the user gave and that have no effect on the run: a mistake, or a leftover of another run.
#pragma once

#include <optional>
#include <string>

#include "config/compose.h"

namespace dpo::plan {

// Facts about the data of a run, as far as they are on this machine.
struct DataFacts {
  std::optional<bool> has_chats;       // whether any data set has conversations
  std::optional<bool> splits_by_hash;  // whether data.test_share divides any of them
};

// Returns one note that names all such keys, each with the reason; empty if there are none.
std::string unused_keys_note(const config::Resolved& resolved, const DataFacts& data);

}  // namespace dpo::plan
