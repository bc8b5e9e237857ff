#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "checkpoint/load.h"

namespace dpo::cli {

// Shows on stderr how many megabytes of something long are done, and throws Stopped when a signal came.
checkpoint::ProgressCallback shown_progress(const std::string& what);

at::ScalarType scalar_type_named(const std::string& name);  // float32, bfloat16, float16

// "GPT-2, 124,439,808 parameters, float32, 498 MB"
std::string summary_of(const checkpoint::LoadedModel& model);

}  // namespace dpo::cli
