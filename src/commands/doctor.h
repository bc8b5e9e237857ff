#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dpo::commands {

// What this machine and this build have: "version", "cpu" (what this process may use of it), "gpus",
// "driver", "libtorch", "nccl", "mpi", "arrow", "nvcc", "disk", and "missing": what is missing, what that
// prevents, and what to do about it.
nlohmann::json doctor_report();

std::string doctor_text(const nlohmann::json& report);

// Whether this machine has all that every run needs.
bool is_usable(const nlohmann::json& report);

}  // namespace dpo::commands
