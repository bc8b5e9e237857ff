#pragma once

#include <optional>
#include <string>

#include "config/node.h"

namespace dpo::config {

// One command-line argument: key=value, +key=value, ++key=value, ~key or ~key=value.
struct Override {
  enum class Kind { Change, Add, Force, Delete };

  Kind kind = Kind::Change;
  std::string key;            // "model.archive"
  std::optional<Node> value;  // nullopt only for ~key
  std::string text;           // the argument as given
};

// Parses an argument with the grammar of Hydra 1.3. Sweeps and functions are rejected. Throws a UserError
// that shows the argument and the position where parsing stopped.
Override parse_override(const std::string& argument);

}  // namespace dpo::config
