#pragma once

#include <cstddef>
#include <functional>

namespace dpo::data {

// Calls work(0) ... work(count - 1) on all cores, in any order. The first exception is thrown after all have
// stopped.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace dpo::data
