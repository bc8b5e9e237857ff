#pragma once

#include <iosfwd>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dpo {

// What this machine and this build have: "version", "cpu" (what this process may use of it), "gpus",
// "driver", "libtorch", "nccl", "mpi", "arrow", "nvcc", "disk", and "missing": what is absent, what that
// prevents, and what to do about it.
nlohmann::json doctor_report();

std::string doctor_text(const nlohmann::json& report);

// `dpo doctor [--json]`: 0 when nothing that every run needs is missing, else 1.
int run_doctor(bool as_json, std::ostream& out);

}  // namespace dpo
