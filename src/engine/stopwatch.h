#pragma once

#include <chrono>
#include <ctime>

#include <nlohmann/json.hpp>

namespace dpo::engine {

// Time that work took, for benchmarks. CPU time of all threads depends less on other work on the machine than
// wall-clock time does.
struct Elapsed {
  double seconds = 0;
  double cpu_seconds = 0;

  Elapsed& operator+=(const Elapsed& other) {
    seconds += other.seconds;
    cpu_seconds += other.cpu_seconds;
    return *this;
  }

  std::string to_json() const {
    return nlohmann::json{{"seconds", seconds}, {"cpu_seconds", cpu_seconds}}.dump();
  }
};

class Stopwatch {
 public:
  Elapsed elapsed() const {
    return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(),
            static_cast<double>(std::clock() - cpu_start_) / CLOCKS_PER_SEC};
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::clock_t cpu_start_ = std::clock();
};

}  // namespace dpo::engine
