// Runs fuzz targets on generated inputs: dpo_fuzz TARGET... In the environment:
//   DPO_FUZZ_SEED     seed of the inputs (1)
//   DPO_FUZZ_SECONDS  seconds for the inputs of a target; without it, 20000 inputs are tried if DPO_TEST_ALL
//                     is set, else 2000
//   DPO_FUZZ_INPUT    number of one input, to try it alone
// Every input has its own random generator, so that a failure can be repeated by seed and number.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <optional>

#include "target.h"

namespace fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kInputs = 20'000, kFewInputs = 2000;
constexpr unsigned kSecondsForOne = 60;

// The input that is being tried, for the report of a failure.
struct {
  const char* target = "";
  std::uint64_t seed = 1, number = 0;
  std::string input;
} now;

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*end == '\0') return value;
  std::fprintf(stderr, "dpo_fuzz: %s is '%s', expected a number\n", variable, text);
  std::exit(1);
}

void print_input() {
  constexpr std::size_t kMost = 4000;
  std::fprintf(stderr, "the input, %zu bytes: \"", now.input.size());
  for (std::size_t i = 0; i < std::min(kMost, now.input.size()); ++i) {
    const auto byte = static_cast<unsigned char>(now.input[i]);
    if (byte == '"' || byte == '\\')
      std::fprintf(stderr, "\\%c", byte);
    else if (byte >= 0x20 && byte < 0x7f)
      std::fputc(byte, stderr);
    else
      std::fprintf(stderr, "\\%03o", byte);
  }
  std::fputs(now.input.size() > kMost ? "\"...\n" : "\"\n", stderr);
}

// Reports the input of a crash. The process ends here in any case, so a handler that prints does no harm. The
// sanitizers abort too (see tests/sanitizers.cpp), after their own report.
void report(int signal) {
  ::signal(signal, SIG_DFL);
  std::fprintf(stderr, "\n%s failed at input %" PRIu64 " of seed %" PRIu64 "%s\n", now.target, now.number,
               now.seed, signal == SIGALRM ? ", which takes too long" : "");
  print_input();
  std::fprintf(stderr, "to repeat it: DPO_FUZZ_SEED=%" PRIu64 " DPO_FUZZ_INPUT=%" PRIu64 " %s %s\n", now.seed,
               now.number, program_invocation_short_name, now.target);
  ::raise(signal);
}

bool try_one(const Target& target, std::uint64_t number) {
  Mutator mutator(now.seed, number);
  now.number = number;
  now.input = target.make(mutator);
  ::alarm(kSecondsForOne);
  const bool accepted = target.run(now.input);
  ::alarm(0);
  return accepted;
}

// Returns false if none or all of many inputs were accepted: such inputs test little.
bool try_all(const Target& target) {
  const auto seconds = number_in("DPO_FUZZ_SECONDS");
  const auto end = Clock::now() + std::chrono::seconds(seconds.value_or(0));
  const std::uint64_t inputs = std::getenv("DPO_TEST_ALL") ? kInputs : kFewInputs;
  std::uint64_t count = 0, accepted = 0;
  for (; seconds ? Clock::now() < end : count < inputs; ++count) accepted += try_one(target, count) ? 1 : 0;
  std::printf("%s: seed %" PRIu64 ", %" PRIu64 " inputs, %" PRIu64 " accepted\n", target.name, now.seed,
              count, accepted);
  constexpr std::uint64_t kMany = 200;
  return count < kMany || (accepted > 0 && accepted < count);
}

bool run(const Target& target) {
  now.target = target.name;
  const auto input = number_in("DPO_FUZZ_INPUT");
  if (!input) return try_all(target);
  std::printf("%s\n", try_one(target, *input) ? "accepted" : "refused");
  return true;
}

const Target& named(std::string_view name) {
  for (const Target& target : targets())
    if (name == target.name) return target;
  std::fprintf(stderr, "usage: %s TARGET..., of\n", program_invocation_short_name);
  for (const Target& target : targets()) std::fprintf(stderr, "  %s\n", target.name);
  std::exit(1);
}

int run(std::span<char*> names) {
  now.seed = number_in("DPO_FUZZ_SEED").value_or(1);
  for (const int signal : {SIGABRT, SIGALRM}) ::signal(signal, report);
#ifndef __SANITIZE_ADDRESS__  // AddressSanitizer reports these signals itself, then aborts
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, report);
#endif
  if (names.empty()) named("");
  bool good = true;
  for (const char* name : names) good = run(named(name)) && good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace fuzz

int main(int argc, char** argv) { return fuzz::run({argv + 1, argv + argc}); }
