#pragma once

#include <exception>
#include <string>

#include "plan/plan.h"

namespace dpo::engine {

// Returns true if the error means that the GPU or the machine ran out of memory.
bool is_out_of_memory(const std::exception& error);

// Returns the message: the memory requested and free, the plan, and settings that need less.
std::string out_of_memory_text(const std::exception& error, const plan::Plan& plan, plan::Inputs in);

}  // namespace dpo::engine
