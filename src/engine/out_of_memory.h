#pragma once

#include <exception>
#include <string>

#include "plan/plan.h"

namespace dpo::engine {

// Whether a run failed because there was no more memory, of the GPU or of the machine.
bool is_out_of_memory(const std::exception& error);

// What is then said: what was asked for and free, what was planned, and what needs less by the plan.
std::string out_of_memory_text(const std::exception& error, const plan::Plan& plan, plan::Inputs in);

}  // namespace dpo::engine
