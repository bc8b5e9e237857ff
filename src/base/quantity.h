#pragma once

#include <cstdint>
#include <string>

namespace dpo {

inline constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
inline constexpr std::uint64_t kShardBytes = 5'000'000'000;  // default maximum of a weight file, bytes

// Functions that format numbers for people.
std::string with_commas(std::int64_t number);  // 487,424
std::string short_count(std::int64_t number);  // 8,000, 487k, 124M, 2.78B
std::string file_size(std::int64_t bytes);     // 256 B, 16.7 MB; powers of 1000, the convention for files
std::string memory_size(double bytes);         // 512 B, 9.1 GiB; powers of 1024, the convention for memory
std::string rough_duration(double seconds);    // 40 s, 3 min, 2.5 h, 4.1 days
std::string exact_duration(double seconds);    // 15 ms, 2.5 s, 1.8 min, otherwise like rough_duration
std::string plural(std::int64_t count, std::string noun);  // 1 update, 2 updates; 1 process, 2 processes

}  // namespace dpo
