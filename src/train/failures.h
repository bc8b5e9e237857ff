#pragma once

#include <stdexcept>

namespace dpo::train {

// Training cannot go on; the message says where and why. Exit status 2.
class TrainingFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A signal asked for the end before the first update; the message says during what. Exit status 143.
class Stopped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dpo::train
