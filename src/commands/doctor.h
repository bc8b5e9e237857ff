#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dpo::commands {

// Describes this machine and this build: "version", "cpu" (the part that this process may use), "gpus",
// "driver", "libtorch", "nccl", "mpi", "arrow", "nvcc", "disk", and "missing". The last lists what is
// missing, what does not work without it, and what to do.
nlohmann::json doctor_report();

std::string doctor_text(const nlohmann::json& report);

// Returns true if this machine has everything that all runs need.
bool is_usable(const nlohmann::json& report);

}  // namespace dpo::commands
