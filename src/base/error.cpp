#include "base/error.h"

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dpo {

UserError::UserError(std::string problem) : UserError(std::vector<std::string>{std::move(problem)}) {}

UserError::UserError(std::vector<std::string> problems)
    : std::runtime_error(fmt::format("{}", fmt::join(problems, "\n"))), problems_(std::move(problems)) {}

std::string message_of(const std::exception& error) {
  const char* trace = std::getenv("DPO_TRACE");
  const std::string text = error.what();
  if (trace && std::string_view(trace) == "1") return text;
  return text.substr(0, text.find("\nException raised from "));
}

}  // namespace dpo
