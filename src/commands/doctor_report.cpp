#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "commands/doctor.h"
#include "commands/engine.h"
#include "commands/package.h"
#include "hardware/gpus.h"
#include "hardware/processor.h"
#include "http/http.h"
#include "serve/server.h"

namespace dpo::commands {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Returns the output of a command, or nullopt if it prints nothing or does not exist.
std::optional<std::string> output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>/dev/null").c_str(), "r"),
                                                   ::pclose);
  if (!pipe) return std::nullopt;
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get()))
    text.push_back(static_cast<char>(c));
  if (text.empty()) return std::nullopt;
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

json first_line_of(const std::string& command) {
  const std::optional<std::string> text = output_of(command);
  return text ? json(first_line(*text)) : json();
}

// Returns all values of a key in a file of "Key : value" lines, as in /proc.
std::vector<std::string> proc_values(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  std::vector<std::string> values;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    if (line.find_last_not_of(" \t", colon - 1) + 1 != key.size()) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    values.push_back(start == std::string::npos ? "" : line.substr(start));
  }
  return values;
}

// Describes the resources that this process may use and those of the machine.
json describe_cpu() {
  const hardware::Processor processor = hardware::find_processor();
  const std::vector<std::string> packages = proc_values("/proc/cpuinfo", "physical id");
  const std::vector<std::string> cores = proc_values("/proc/cpuinfo", "core id");
  std::set<std::pair<std::string, std::string>> distinct;
  for (std::size_t i = 0; i < std::min(packages.size(), cores.size()); ++i) {
    distinct.emplace(packages[i], cores[i]);
  }
  const auto threads = static_cast<std::size_t>(processor.threads());
  return {{"model", processor.name.empty() ? json() : json(processor.name)},
          {"cores", distinct.empty() ? threads : std::min(threads, distinct.size())},
          {"threads", threads},
          {"memory_bytes", static_cast<std::uint64_t>(processor.memory)},
          {"available_bytes", static_cast<std::uint64_t>(processor.available)},
          {"machine_threads", processor.machine_cores},
          {"machine_memory_bytes", static_cast<std::uint64_t>(processor.machine_memory)},
          {"bfloat16", hardware::name_of(processor.bf16)}};
}

json describe_gpus(const hardware::Gpus& gpus) {
  json list = json::array();
  for (const hardware::Gpu& gpu : gpus.found)
    list.push_back({{"name", gpu.name},
                    {"compute_capability", gpu.compute_capability()},
                    {"memory_bytes", gpu.memory_bytes},
                    {"usable", gpus.obstacle.empty()}});
  return list;
}

// Extracts the version from "NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...".
json describe_driver() {
  const std::vector<std::string> lines = proc_values("/proc/driver/nvidia/version", "NVRM version");
  if (lines.empty()) return {};
  std::istringstream words(lines.front());
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return lines.front();
}

json describe_nvcc() {
  std::optional<std::string> text = output_of("nvcc --version");
  if (!text) text = output_of("/usr/local/cuda/bin/nvcc --version");
  if (!text) return {};
  const std::size_t release = text->find("release ");
  return release == std::string::npos ? first_line(*text) : first_line(text->substr(release + 8));
}

// Returns the folder of a library that this process has loaded, or "".
std::string folder_of_library(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t file = line.find("/" + name);
    const std::size_t path = line.find('/');
    if (file != std::string::npos) return line.substr(path, file - path);
  }
  return "";
}

json describe_arrow() {
  const std::string version = DPO_ARROW_VERSION;
  if (version.empty()) return {};
  return {{"version", version}, {"folder", folder_of_library("libarrow.so")}};
}

fs::path hugging_face_cache() {
  if (const char* home = std::getenv("HF_HOME")) return home;
  const char* user = std::getenv("HOME");
  return fs::path(user == nullptr ? "/" : user) / ".cache" / "huggingface";
}

// Describes the free space where runs and downloads are written: in the folder, or its nearest existing
// parent.
json describe_disk() {
  json disks = json::array();
  for (const auto& [use, folder] : {std::pair<std::string, fs::path>{"runs", fs::current_path()},
                                    {"models and data sets", hugging_face_cache()}}) {
    fs::path existing = folder;
    std::error_code error;
    while (!fs::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
    const fs::space_info space = fs::space(existing, error);
    disks.push_back({{"use", use},
                     {"path", folder.string()},
                     {"free_bytes", error ? json() : json(space.available)},
                     {"total_bytes", error ? json() : json(space.capacity)}});
  }
  return disks;
}

json missing(const std::string& what, const std::string& prevents, const std::string& advice,
             bool required = false) {
  return {{"what", what}, {"prevents", prevents}, {"advice", advice}, {"required", required}};
}

json list_missing(const json& report, const std::string& gpu_obstacle, bool is_package) {
  json list = json::array();
  const json& libtorch = report["libtorch"];
  if (!libtorch["found"].get<bool>()) {
    list.push_back(missing("LibTorch",
                           "all commands that compute: train, score, sample, bench, demo and others",
                           libtorch["problem"].get<std::string>(), true));
  }
  if (!gpu_obstacle.empty()) {
    list.push_back(missing("a way to use the GPU", "training on it: runs use the CPU", gpu_obstacle));
  } else if (report["gpus"].empty()) {
    list.push_back(
        missing("an NVIDIA GPU", "training at full speed",
                report["driver"].is_null()
                    ? "nothing, if training on the CPU is intended; otherwise install the NVIDIA driver"
                    : "the driver is installed but reports no GPU: see nvidia-smi"));
  }
  if (is_package) {
    list.push_back(missing("the MPI part of this program", "runs with several processes on CPUs",
                           "build dpo from its source code (./run build); packages have no MPI"));
  } else if (report["mpi"].is_null()) {
    list.push_back(missing("Open MPI", "runs with several processes",
                           "apt-get install openmpi-bin libopenmpi-dev, or load your cluster's module"));
  } else if (!libtorch.value("mpi_part", true)) {
    list.push_back(missing("the MPI part of this program", "runs with several processes on CPUs",
                           "install Open MPI's headers (libopenmpi-dev), then ./run build"));
  }
  if (libtorch.value("cuda_part", false) && !libtorch.value("own_kernels", true)) {
    list.push_back(missing("dpo's own CUDA kernels", "full speed on GPUs, and NCCL between them",
                           "install a CUDA toolkit (nvcc), then ./run build"));
  } else if (libtorch.value("cuda_part", false) && !libtorch.value("nccl_part", true)) {
    list.push_back(missing("the NCCL part of this program", "runs on several GPUs at full speed",
                           "install NCCL's header (nccl.h, libnccl-dev), then ./run build"));
  }
  if (report["arrow"].is_null()) {
    list.push_back(
        missing("Arrow", "reading Parquet files", "python3 -m pip install pyarrow, then ./run build"));
  }
  if (!http::is_available()) {
    list.push_back(missing("libcurl", "downloading from the Hugging Face hub",
                           "install libcurl4-openssl-dev, then ./run build"));
  }
  if (!serve::is_available()) {
    list.push_back(missing("cpp-httplib", "dpo serve", "install libcpp-httplib-dev, then ./run build"));
  }
  return list;
}

}  // namespace

json doctor_report() {
  json report;
  report["version"] = DPO_VERSION;
  report["cpu"] = describe_cpu();
  report["driver"] = describe_driver();
  const hardware::Gpus& gpus = hardware::find_gpus();
  report["gpus"] = describe_gpus(gpus);

  const EngineOutput engine = output_of_engine({"devices"});
  json& libtorch = report["libtorch"];
  if (engine.succeeded) {
    libtorch = json::parse(engine.text);
    libtorch["tested_version"] = DPO_TESTED_TORCH;
    for (const char* const key : {"nccl", "nccl_algorithms"}) {
      report[key] = libtorch[key];
      libtorch.erase(key);
    }
  } else {
    libtorch["problem"] = engine.text;
    report["nccl"] = nullptr;
  }
  libtorch["found"] = engine.succeeded;

  report["mpi"] = first_line_of("mpirun --version");
  report["arrow"] = describe_arrow();
  report["nvcc"] = describe_nvcc();
  report["disk"] = describe_disk();
  report["missing"] = list_missing(report, gpus.obstacle, package_of_this_program().has_value());
  return report;
}

}  // namespace dpo::commands
