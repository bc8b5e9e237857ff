#include "serve/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/memory_file.h"
#include "base/utf8.h"

namespace dpo::serve {
namespace {

[[noreturn]] void cannot_start(const std::string& program) {
  throw UserError(fmt::format("cannot start {}: {}", program, std::strerror(errno)));
}

// Only plain system calls are allowed between fork and exec in a process with threads.
[[noreturn]] void become(const char* program, char* const* arguments, int input, int output, int errors) {
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::close_range(3, ~0u, 0);            // among them the connections of other viewers
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with the server, even if the server is killed
  ::setpgid(0, 0);                     // Ctrl-C goes to the server only
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGPIPE}) std::signal(signal, SIG_DFL);
  ::execv(program, arguments);
  ::_exit(127);
}

// Returns the number of bytes at the end that begin a character without completing it.
std::size_t incomplete_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

Child::Child(const std::string& program, const std::vector<std::string>& arguments,
             const std::string& input) {
  const MemoryFile given(input);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) cannot_start(program);
  output_ = ends[0];
  errors_ = ::memfd_create("errors", MFD_CLOEXEC);
  if (errors_ < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    cannot_start(program);
  }
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  process_ = ::fork();
  if (process_ == 0) become(program.c_str(), argv.data(), given.descriptor(), ends[1], errors_);
  ::close(ends[1]);
  if (process_ > 0) return;
  ::close(output_);
  ::close(errors_);
  cannot_start(program);
}

Child::~Child() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(output_);
  ::close(errors_);
}

std::string Child::read(std::chrono::milliseconds most) {
  pollfd waiting{output_, POLLIN, 0};
  if (ended_ || ::poll(&waiting, 1, static_cast<int>(most.count())) <= 0) return "";
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(output_, buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return "";
  ended_ = count <= 0;
  std::string text =
      std::move(incomplete_) + std::string(buffer.data(), ended_ ? 0 : static_cast<std::size_t>(count));
  const std::size_t left = ended_ ? 0 : incomplete_bytes(text);
  incomplete_ = text.substr(text.size() - left);
  text.resize(text.size() - left);
  return replace_invalid_utf8(text);
}

std::string Child::failure() {
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  constexpr off_t kMost = 2000;
  const off_t size = ::lseek(errors_, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::min(kMost, std::max<off_t>(0, size))), '\0');
  const ssize_t count = ::pread(errors_, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return text.empty() ? "the process was killed" : replace_invalid_utf8(text);
}

}  // namespace dpo::serve
