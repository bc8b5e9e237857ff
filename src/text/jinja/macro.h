#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/jinja/statements.h"

namespace dpo::text::jinja {

// Makes a macro that is defined in the running function. Without a name, makes the caller of a call block.
Value make_macro(Rendering& rendering, std::optional<std::string> name,
                 std::shared_ptr<const MacroBody> body);

}  // namespace dpo::text::jinja
