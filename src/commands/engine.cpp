#include "commands/engine.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "commands/package.h"

namespace dpo::commands {
namespace {

std::filesystem::path engine_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "dpo-engine";
}

// Makes the LibTorch of a package findable. The programs of a package search next to it by themselves, but
// not in LIBTORCH.
void find_libraries(const Package& package) {
  const std::filesystem::path torch = find_torch(package, std::getenv("LIBTORCH"));
  if (torch == torch_beside(package)) return;
  const char* const others = std::getenv("LD_LIBRARY_PATH");
  const std::string folder = torch / "lib";
  ::setenv("LD_LIBRARY_PATH", (others && *others ? folder + ":" + others : folder).c_str(), 1);
}

std::string read_until_closed(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

void run_engine(const std::vector<std::string>& arguments) {
  const std::string path = engine_path();
  if (const std::optional<Package> package = package_of_this_program()) find_libraries(*package);
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  if (errno == ENOENT) {
    throw UserError(
        fmt::format("{} not found: this dpo was built without LibTorch. './run build' finds or installs one, "
                    "'LIBTORCH=DIR ./run build' uses yours",
                    path));
  }
  throw UserError(fmt::format("cannot start {}: {}", path, std::strerror(errno)));
}

EngineOutput output_of_engine(const std::vector<std::string>& arguments) {
  int ends[2];
  const int errors = ::memfd_create("errors", 0);
  if (errors < 0 || ::pipe(ends) != 0) {
    throw UserError(fmt::format("cannot start dpo-engine: no pipe: {}", std::strerror(errno)));
  }
  const pid_t child = ::fork();
  if (child < 0) {
    throw UserError(fmt::format("cannot start dpo-engine: no process: {}", std::strerror(errno)));
  }
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    try {
      run_engine(arguments);
    } catch (const UserError& error) {
      const std::string message = error.what();
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
      ::_exit(1);
    }
  }
  ::close(ends[1]);
  EngineOutput output;
  output.text = read_until_closed(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  output.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!output.succeeded) {
    ::lseek(errors, 0, SEEK_SET);
    output.text = read_until_closed(errors);
  }
  ::close(errors);
  return output;
}

}  // namespace dpo::commands
