#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/jinja/statements.h"

namespace dpo::text::jinja {

// A macro defined in the function that runs; without a name, the caller of a call block.
Value make_macro(Rendering& rendering, std::optional<std::string> name,
                 std::shared_ptr<const MacroBody> body);

}  // namespace dpo::text::jinja
