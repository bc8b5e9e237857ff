#include "commands/doctor.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/exit_status.h"
#include "base/quantity.h"
#include "commands/commands.h"

namespace dpo::commands {
namespace {

using nlohmann::json;

std::string gib(const json& bytes) {
  return bytes.is_null() ? "unknown" : fmt::format("{:.1f} GiB", bytes.get<double>() / kGib);
}

std::string text_or(const json& value, const std::string& otherwise) {
  return value.is_null() ? otherwise : value.get<std::string>();
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("{:<10}{}\n", name, value);
}

std::string bfloat16_text(const std::string& kind) {
  if (kind == "amx") return "with AMX";
  return kind == "vector" ? "with vector instructions" : "emulated (slower than float32)";
}

// Describes how CPU affinity or a control group limits this process, or returns "".
std::string limit_text(const json& cpu) {
  if (cpu["threads"] >= cpu["machine_threads"] && cpu["memory_bytes"] >= cpu["machine_memory_bytes"])
    return "";
  return fmt::format("; this process is limited, the machine has {} and {}",
                     plural(cpu["machine_threads"].get<int>(), "thread"), gib(cpu["machine_memory_bytes"]));
}

std::string libtorch_row(const json& libtorch) {
  if (!libtorch["found"].get<bool>()) return row("LibTorch", "not usable");
  const std::string version = libtorch["version"].get<std::string>();
  const std::string tested = libtorch["tested_version"].get<std::string>();
  return row("LibTorch", fmt::format("{}{}, CPU kernels {}, {}, {} CUDA, in {}", version,
                                     version == tested ? "" : fmt::format(" (tested with {})", tested),
                                     libtorch["cpu_instructions"].get<std::string>(),
                                     plural(libtorch["threads"].get<int>(), "thread"),
                                     libtorch["cuda_part"].get<bool>() ? "with" : "without",
                                     libtorch["folder"].get<std::string>()));
}

}  // namespace

std::string doctor_text(const json& report) {
  const json& cpu = report["cpu"];
  std::string text = row("dpo", report["version"].get<std::string>());
  text +=
      row("CPU", fmt::format("{}, {}, {}, {} memory ({} available), bfloat16 {}{}",
                             text_or(cpu["model"], "unknown model"), plural(cpu["cores"].get<int>(), "core"),
                             plural(cpu["threads"].get<int>(), "thread"), gib(cpu["memory_bytes"]),
                             gib(cpu["available_bytes"]), bfloat16_text(cpu["bfloat16"].get<std::string>()),
                             limit_text(cpu)));
  for (const json& gpu : report["gpus"]) {
    text += row("GPU", fmt::format("{}, {}, compute capability {}{}", gpu["name"].get<std::string>(),
                                   gib(gpu["memory_bytes"]), gpu["compute_capability"].get<std::string>(),
                                   gpu["usable"].get<bool>() ? "" : ", not used"));
  }
  if (report["gpus"].empty()) text += row("GPU", "none");
  text += row("driver", text_or(report["driver"], "none"));
  text += libtorch_row(report["libtorch"]);
  text += row("NCCL", report["nccl"].is_null()
                          ? "none"
                          : fmt::format("{}, NCCL_ALGO={}", report["nccl"].get<std::string>(),
                                        report["nccl_algorithms"].get<std::string>()));
  text += row("MPI", text_or(report["mpi"], "none"));
  const json& arrow = report["arrow"];
  text += row("Arrow", arrow.is_null() ? "none"
                                       : fmt::format("{}, in {}", arrow["version"].get<std::string>(),
                                                     arrow["folder"].get<std::string>()));
  text += row("nvcc", text_or(report["nvcc"], "none"));
  for (const json& disk : report["disk"]) {
    text += row("disk",
                fmt::format("{} free of {} for {}, in {}", gib(disk["free_bytes"]), gib(disk["total_bytes"]),
                            disk["use"].get<std::string>(), disk["path"].get<std::string>()));
  }
  for (const json& item : report["missing"]) {
    text += fmt::format("\nmissing: {}\n  prevents: {}\n  what to do: {}\n", item["what"].get<std::string>(),
                        item["prevents"].get<std::string>(), item["advice"].get<std::string>());
  }
  return text;
}

bool is_usable(const json& report) {
  return std::none_of(report["missing"].begin(), report["missing"].end(),
                      [](const json& item) { return item["required"].get<bool>(); });
}

namespace {

struct DoctorArguments {
  bool json = false;
};

void describe(CLI::App& command, DoctorArguments& arguments) {
  command.description("show what this machine has, and what is missing");
  command.add_flag("--json", arguments.json, "print one JSON object");
}

int run_doctor(const DoctorArguments& arguments) {
  const json report = doctor_report();
  fmt::print("{}", arguments.json ? report.dump(2) + "\n" : doctor_text(report));
  return is_usable(report) ? 0 : kBadInput;
}

}  // namespace

Command doctor_command() { return make_command<DoctorArguments>("doctor", run_doctor); }

}  // namespace dpo::commands
