// base: what every folder shares: errors, files, names.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace dpo {

// Something the user can fix: bad input, a missing file, a full disk. Each problem is one complete message
// (who, what, got, expected, what to try); several are reported together.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::string problem);
  explicit UserError(std::vector<std::string> problems);

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

// What an exception says, without the stack trace that LibTorch adds unless DPO_TRACE=1 is set.
std::string message_of(const std::exception& error);

}  // namespace dpo
