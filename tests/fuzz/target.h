// A fuzz target: a parser of external input, a generator of its inputs, and the properties that hold for all
// of them.
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
  bool (*run)(std::string_view input);  // aborts if a check fails; true if the input was accepted
};

std::vector<Target>& targets();

// Registers a target when it is constructed.
struct Registered {
  explicit Registered(const Target& target) { targets().push_back(target); }
};

[[noreturn]] void fail(std::string_view what, std::string_view detail = "");

// Checks that a message to users is one printable line.
void check_message(std::string_view message);
// Checks messages that contain names of files or variables unchanged: there must be at least one problem.
void check_some_message(std::string_view message);

// Returns true if the parser accepts the input. Only a UserError may reject it.
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
