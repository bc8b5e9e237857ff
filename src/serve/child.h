#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace dpo::serve {

// Runs a program in another process and reads its output meanwhile. The process ends with this object.
class Child {
 public:
  // Throws UserError if the process cannot be started. `program` is the path of an executable. `input` is the
  // text on its stdin, which other users of this machine cannot see, unlike its arguments.
  Child(const std::string& program, const std::vector<std::string>& arguments, const std::string& input = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits at most `most` for output on stdout and returns it in whole characters, or "".
  std::string read(std::chrono::milliseconds most);

  bool has_ended() const { return ended_; }

  // Must be called after the process has ended. Returns its last lines on stderr if it failed, else "".
  std::string failure();

 private:
  pid_t process_ = -1;
  int output_ = -1, errors_ = -1;
  std::string incomplete_;  // the first bytes of a character
  bool ended_ = false;
};

}  // namespace dpo::serve
