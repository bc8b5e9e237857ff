#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace dpo::serve {

// Another process of this program, whose output is read while it runs. It ends with this object.
class Child {
 public:
  // A UserError if it cannot be started. `program`: the path of an executable. `input`: what it reads from
  // stdin; other users of this machine can see the arguments of a process, but not that.
  Child(const std::string& program, const std::vector<std::string>& arguments, const std::string& input = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // What it wrote to stdout, in whole characters, perhaps nothing; waits no longer than `most`.
  std::string read(std::chrono::milliseconds most);

  bool has_ended() const { return ended_; }

  // After its end: the last lines of stderr if it failed, else nothing.
  std::string failure();

 private:
  pid_t process_ = -1;
  int output_ = -1, errors_ = -1;
  std::string incomplete_;  // the beginning of a character
  bool ended_ = false;
};

}  // namespace dpo::serve
