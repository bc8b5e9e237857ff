// A fuzz target: a parser of external input, how inputs for it are generated, and what must hold for all.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "mutate.h"

namespace fuzz {

struct Target {
  const char* name;
  std::string (*make)(Mutator& mutator);
  bool (*run)(std::string_view input);  // Aborts if something does not hold. True if the input was accepted.
};

std::vector<Target>& targets();

// An object of this kind registers a target.
struct Registered {
  explicit Registered(const Target& target) { targets().push_back(target); }
};

[[noreturn]] void fail(std::string_view what, std::string_view detail = "");

// What a user is shown is one line that can be printed.
void check_message(std::string_view message);
// The same where the names of a file or a variable are shown as they are: there is one, at least.
void check_some_message(std::string_view message);

// Whether the parser accepts the input. Only a UserError may reject it.
template <class Read>
bool accepts(const Read& read, void (*check)(std::string_view) = check_message) {
  try {
    read();
    return true;
  } catch (const dpo::UserError& error) {
    if (error.problems().empty()) fail("an error without a problem");
    for (const std::string& problem : error.problems()) check(problem);
    return false;
  }
}

}  // namespace fuzz
