// The exit status of the program.
#pragma once

namespace dpo {

inline constexpr int kBadInput = 1;
inline constexpr int kTrainingFailed = 2;
inline constexpr int kStopped = 143;  // as the shell says of a process that SIGTERM ended

}  // namespace dpo
