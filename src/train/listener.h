#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace dpo::train {

// Told what is going on while a run is prepared and made.
struct Listener {
  std::function<void(const std::string& line)> say;
  // `unit`: what is counted, such as batches or bytes.
  std::function<void(const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit)>
      progress;
};

}  // namespace dpo::train
