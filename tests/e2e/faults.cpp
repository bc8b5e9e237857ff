// Loaded before all other libraries (LD_PRELOAD), so that changes of files under one folder fail on demand:
//   DPO_FAULT_UNDER=FOLDER  counts changes there: writes, fsync, rename, creating or removing names
//   DPO_FAULT_MATCH=GLOB    counts only changes whose line in the log matches; "*" by default
//   DPO_FAULT_AT=K          number of the change to disturb, from 1
//   DPO_FAULT=KIND          "fail": the change fails as on a broken disk; "last": the process ends after it;
//                           "cut": a write is half done, then the process ends; "wait-FILE": it waits until
//                           FILE exists; "signal-NUMBER": the process gets a signal before it
//   DPO_FAULT_LOCK=ERRNO    locking a file there fails with this errno; EINTR only once
//   DPO_FAULT_SYNC=ERRNO    every fsync there fails with this errno
//   DPO_FAULT_TIME=SECONDS  time() always returns this
//   DPO_FAULT_LOG=FILE      gets a line for every change under FOLDER: "write PATH"
//   DPO_FAULT_MEMORY=FILE   gets a line at every change that matches: the bytes allocated by the process
//                           (bytes in use mean less, since freed memory is kept and used again)
#include <fcntl.h>
#include <fnmatch.h>
#include <malloc.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool counts(const std::string& path) {
  static const std::string under = variable("DPO_FAULT_UNDER");
  return !under.empty() && path.starts_with(under);
}

std::string path_of(int descriptor) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = readlink(link.c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "";
}

void append(const std::string& file, std::string line) {
  if (file.empty()) return;
  line += "\n";
  const auto log =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666));
  syscall(SYS_write, log, line.data(), line.size());
  syscall(SYS_close, log);
}

void log(const std::string& line) {
  static const std::string file = variable("DPO_FAULT_LOG");
  append(file, line);
}

void log_memory() {
  static const std::string file = variable("DPO_FAULT_MEMORY");
  if (file.empty()) return;
  const struct mallinfo2 memory = mallinfo2();
  append(file, std::to_string(memory.uordblks + memory.hblkhd));
}

bool matches(const std::string& line) {
  static const std::string pattern = variable("DPO_FAULT_MATCH");
  return pattern.empty() || fnmatch(pattern.c_str(), line.c_str(), 0) == 0;
}

// Returns the text after `name` in the kind of fault; null if it is another kind.
const char* argument(const std::string& kind, const std::string& name) {
  return kind.starts_with(name) ? kind.c_str() + name.size() : nullptr;
}

enum class Fault { none, fail, last, cut };

Fault next(const char* what, const std::string& path) {
  static const long at = std::atol(variable("DPO_FAULT_AT").c_str());
  static const std::string kind = variable("DPO_FAULT");
  static std::atomic<long> count = 0;
  if (!counts(path)) return Fault::none;
  const std::string line = std::string(what) + " " + path;
  log(line);
  if (!matches(line)) return Fault::none;
  log_memory();
  if (++count != at) return Fault::none;
  if (const char* file = argument(kind, "wait-"))
    for (timespec pause{0, 10'000'000}; access(file, F_OK) != 0;) nanosleep(&pause, nullptr);
  if (const char* number = argument(kind, "signal-")) kill(getpid(), std::atoi(number));
  return kind == "fail"   ? Fault::fail
         : kind == "last" ? Fault::last
         : kind == "cut"  ? Fault::cut
                          : Fault::none;
}

template <class Change>
long change(const char* what, const std::string& path, const Change& make) {
  const Fault fault = next(what, path);
  if (fault == Fault::fail) {
    errno = EIO;
    return -1;
  }
  const long result = make();
  if (fault != Fault::none) syscall(SYS_exit_group, 9);
  return result;
}

// Disturbs a write of `size` bytes in the same way.
template <class Write>
ssize_t written(const char* what, int descriptor, std::size_t size, const Write& write) {
  const Fault fault = next(what, path_of(descriptor));
  if (fault == Fault::fail) {
    errno = EIO;
    return -1;
  }
  const long result = write(fault == Fault::cut ? size / 2 : size);
  if (fault != Fault::none) syscall(SYS_exit_group, 9);
  return result;
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, std::size_t size) {
  return written("write", descriptor, size,
                 [&](std::size_t some) { return syscall(SYS_write, descriptor, data, some); });
}

ssize_t pwrite(int descriptor, const void* data, std::size_t size, off_t offset) {
  return written("write", descriptor, size,
                 [&](std::size_t some) { return syscall(SYS_pwrite64, descriptor, data, some, offset); });
}

ssize_t pwrite64(int descriptor, const void* data, std::size_t size, off_t offset) {
  return pwrite(descriptor, data, size, offset);
}

int ftruncate(int descriptor, off_t size) noexcept {
  return static_cast<int>(
      change("resize", path_of(descriptor), [&] { return syscall(SYS_ftruncate, descriptor, size); }));
}

int fsync(int descriptor) {
  static const int error = std::atoi(variable("DPO_FAULT_SYNC").c_str());
  if (error != 0 && counts(path_of(descriptor))) {
    errno = error;
    return -1;
  }
  return static_cast<int>(
      change("sync", path_of(descriptor), [&] { return syscall(SYS_fsync, descriptor); }));
}

int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(
      change("rename", to, [&] { return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); }));
}

int symlink(const char* target, const char* path) noexcept {
  return static_cast<int>(
      change("link", path, [&] { return syscall(SYS_symlinkat, target, AT_FDCWD, path); }));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return static_cast<int>(change("make", path, [&] { return syscall(SYS_mkdirat, AT_FDCWD, path, mode); }));
}

int unlink(const char* path) noexcept {
  return static_cast<int>(change("remove", path, [&] { return syscall(SYS_unlinkat, AT_FDCWD, path, 0); }));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return static_cast<int>(change("remove", path_of(folder) + "/" + path,
                                 [&] { return syscall(SYS_unlinkat, folder, path, flags); }));
}

int flock(int descriptor, int operation) noexcept {
  static const int error = std::atoi(variable("DPO_FAULT_LOCK").c_str());
  static std::atomic<bool> interrupted = false;
  if (error != 0 && counts(path_of(descriptor)) && !(error == EINTR && interrupted.exchange(true))) {
    errno = error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, descriptor, operation));
}

time_t time(time_t* result) noexcept {
  static const std::string fixed = variable("DPO_FAULT_TIME");
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (!fixed.empty()) now.tv_sec = std::atol(fixed.c_str());
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
