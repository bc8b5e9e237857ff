#pragma once

#include <exception>
#include <string>

#include "plan/plan.h"

namespace dpo::engine {

// Whether the error means that the GPU or the machine ran out of memory.
bool is_out_of_memory(const std::exception& error);

// The message: what was requested and free, what was planned, and settings that need less.
std::string out_of_memory_text(const std::exception& error, const plan::Plan& plan, plan::Inputs in);

}  // namespace dpo::engine
