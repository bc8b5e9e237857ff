#include "target.h"

#include <cstdio>

#include "config/text.h"

namespace fuzz {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

void fail(std::string_view what, std::string_view detail) {
  std::fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

void check_message(std::string_view message) {
  if (message.empty() || message.find('\n') != message.npos ||
      dpo::config::first_bad_byte(message) != message.npos)
    fail("a message that is not one printable line", message);
}

void check_some_message(std::string_view message) {
  if (message.empty()) fail("an empty message");
}

}  // namespace fuzz
