// One input is either the words of a command line, one per line, or a configuration file. Whatever it is,
// only a UserError may escape, its messages must be printable lines, and what is accepted must survive being
// printed and read again.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/compose.h"
#include "config/print.h"
#include "config/text.h"
#include "config_fuzz.h"

namespace {

using dpo::config::Request;
using dpo::config::Resolved;

[[noreturn]] void fail(std::string_view what, const std::string& detail) {
  std::fprintf(stderr, "config_fuzz: %.*s: %s\n", static_cast<int>(what.size()), what.data(), detail.c_str());
  std::abort();
}

// A file without a disk: compose() takes a path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("config", 0)) {
    if (descriptor_ < 0) fail("memfd_create", "failed");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string write(std::string_view text) {
    if (ftruncate(descriptor_, 0) != 0 ||
        pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      fail("writing the file", "failed");
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

Request request_of_words(std::string_view text) {
  Request request{{"exp_name=e", "model=gpt2-xl"}, {}, {}};
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    request.overrides.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return request;
}

void check_problems(const dpo::UserError& error) {
  if (error.problems().empty()) fail("an error without a problem", error.what());
  for (const std::string& problem : error.problems())
    if (problem.empty() || problem.find('\n') != std::string::npos ||
        dpo::config::first_bad_byte(problem) != std::string::npos)
      fail("a message that is not one printable line", problem);
}

void check_round_trip(const Resolved& resolved) {
  const std::string yaml = to_yaml(resolved);
  const std::string json = to_json(resolved);
  MemoryFile file;
  try {
    const Resolved again = dpo::config::compose({{}, file.write(yaml), {}});
    if (to_json(again) != json) fail("read again, it differs", yaml + to_json(again));
  } catch (const dpo::UserError& error) {
    fail("read again, it is refused", yaml + error.what());
  }
}

}  // namespace

bool try_input(InputKind kind, std::string_view text) {
  setenv("DPO_FUZZ", "8", 1);
  MemoryFile file;
  Request request;
  if (kind == InputKind::Words)
    request = request_of_words(text);
  else
    request = {{"++exp_name=e", "++model.name_or_path=m"}, file.write(text), {}};
  Resolved resolved;
  try {
    resolved = compose(request);
  } catch (const dpo::UserError& error) {
    check_problems(error);
    return false;
  }
  check_round_trip(resolved);
  return true;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try_input(data[0] % 2 == 0 ? InputKind::Words : InputKind::File, text);
  return 0;
}
