#pragma once

#include <cstdint>

#include "config/choices.h"

namespace dpo::optim {

// The learning rate over a run: linear warm-up, then constant, or a decay to 0 at the end.
struct Schedule {
  double learning_rate = 0;
  std::int64_t warmup = 0;  // updates
  config::Schedule kind = config::Schedule::constant;
  std::int64_t updates = 0;  // of the whole run

  double at(std::int64_t update) const;  // counted from 0
};

}  // namespace dpo::optim
