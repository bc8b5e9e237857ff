#include "commands/doctor.h"

#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

namespace dpo::commands {
namespace {

using nlohmann::json;

json report_of_a_gpu_machine() {
  return json::parse(R"({
    "version": "1.2.3",
    "cpu": {"model": "Some CPU", "cores": 8, "threads": 16, "memory_bytes": 68719476736,
            "available_bytes": 34359738368, "machine_threads": 16, "machine_memory_bytes": 68719476736,
            "bfloat16": "amx"},
    "gpus": [{"name": "Some GPU", "compute_capability": "9.0", "memory_bytes": 85899345920, "usable": true}],
    "driver": "580.1",
    "libtorch": {"found": true, "version": "2.11.0", "tested_version": "2.11.0", "folder": "/some/torch",
                 "cpu_instructions": "AVX512", "threads": 8, "cuda_part": true},
    "nccl": "2.28.9", "nccl_algorithms": "^NVLS", "mpi": null, "arrow": {"version": "20.0.0", "folder": "/some/pyarrow"}, "nvcc": "13.0",
    "disk": [{"use": "runs", "path": "/data", "free_bytes": 1073741824, "total_bytes": 2147483648}],
    "missing": [{"what": "Open MPI", "prevents": "several processes", "advice": "install it", "required": false}]
  })");
}

TEST(Doctor, TextNamesEveryPart) {
  const std::string text = doctor_text(report_of_a_gpu_machine());
  for (const char* part :
       {"1.2.3", "Some CPU, 8 cores, 16 threads, 64.0 GiB memory (32.0 GiB available), bfloat16 with AMX\n",
        "Some GPU, 80.0 GiB, compute capability 9.0", "580.1",
        "2.11.0, CPU kernels AVX512, 8 threads, with CUDA, in /some/torch", "2.28.9",
        "20.0.0, in /some/pyarrow", "13.0", "1.0 GiB free of 2.0 GiB for runs, in /data",
        "missing: Open MPI\n  prevents: several processes\n  what to do: install it\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(Doctor, TextShowsTheLimitsOfTheProcessAndAnUnusedGpu) {
  json report = report_of_a_gpu_machine();
  report["cpu"]["machine_threads"] = 64;
  report["gpus"][0]["usable"] = false;
  const std::string text = doctor_text(report);
  EXPECT_NE(text.find("this process is limited, the machine has 64 threads and 64.0 GiB"), std::string::npos)
      << text;
  EXPECT_NE(text.find("compute capability 9.0, not used"), std::string::npos) << text;
}

TEST(Doctor, TextShowsThatLibTorchIsNotTheTestedOne) {
  json report = report_of_a_gpu_machine();
  report["libtorch"]["version"] = "2.12.1";
  EXPECT_NE(doctor_text(report).find("2.12.1 (tested with 2.11.0)"), std::string::npos);
}

// The test program has no dpo-engine next to it, as on a machine without LibTorch.
TEST(Doctor, ReportsThisMachineWithoutLibTorch) {
  const json report = doctor_report();
  EXPECT_GE(report["cpu"]["threads"].get<int>(), 1);
  EXPECT_GE(report["cpu"]["threads"].get<int>(), report["cpu"]["cores"].get<int>());
  EXPECT_GT(report["cpu"]["memory_bytes"].get<double>(), 1e8);
  EXPECT_GT(report["disk"][0]["free_bytes"].get<double>(), 0);
  EXPECT_FALSE(report["libtorch"]["found"].get<bool>());
  ASSERT_FALSE(report["missing"].empty());
  EXPECT_EQ(report["missing"][0]["what"], "LibTorch");
  EXPECT_NE(report["missing"][0]["advice"].get<std::string>().find("./run build"), std::string::npos);
  EXPECT_FALSE(doctor_text(report).empty());
}

TEST(Doctor, AMachineWithoutLibTorchIsNotUsable) {
  const json report = doctor_report();
  EXPECT_FALSE(is_usable(report));
  EXPECT_EQ(report["version"], DPO_VERSION);
}

}  // namespace
}  // namespace dpo::commands
