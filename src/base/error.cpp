#include "base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dpo {

UserError::UserError(std::string problem) : UserError(std::vector<std::string>{std::move(problem)}) {}

UserError::UserError(std::vector<std::string> problems)
    : std::runtime_error(fmt::format("{}", fmt::join(problems, "\n"))), problems_(std::move(problems)) {}

}  // namespace dpo
