// Exit status values of the program.
#pragma once

namespace dpo {

inline constexpr int kBadInput = 1;
inline constexpr int kTrainingFailed = 2;
inline constexpr int kStopped = 143;  // 128 + SIGTERM, as shells report it

}  // namespace dpo
