// base contains the code that all other folders share: errors, files, text and processes.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace dpo {

// A problem that the user can fix: bad input, a missing file, a full disk. Each problem is one complete
// message (subject, problem, actual value, expected value, suggestion). Several problems are reported
// together.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::string problem);
  explicit UserError(std::vector<std::string> problems);

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

// Returns an exception's message, without the stack trace that LibTorch adds unless DPO_TRACE=1 is set.
std::string message_of(const std::exception& error);

}  // namespace dpo
