#include "hardware/processor.h"

#include <fstream>

#include <gtest/gtest.h>

namespace dpo::hardware {
namespace {

namespace fs = std::filesystem;

constexpr double kGiB = 1024.0 * 1024 * 1024;

// A made-up /proc and /sys: 64 cores, 128 GiB.
class FakeRoot : public testing::Test {
 protected:
  FakeRoot() : root_(fs::path(testing::TempDir()) / "dpo_processor_test") {
    fs::remove_all(root_);
    cpuinfo("fpu avx2");
    write("proc/meminfo", "MemTotal:       134217728 kB\nMemFree: 1 kB\nMemAvailable:   67108864 kB\n");
  }
  ~FakeRoot() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void cpuinfo(const std::string& flags, const std::string& key = "flags") const {
    std::string text;
    for (int i = 0; i < 64; ++i)
      text += "processor\t: " + std::to_string(i) + "\nmodel name\t: Some CPU @ 2 GHz\n" + key +
              "\t: " + flags + "\n\n";
    write("proc/cpuinfo", text);
  }
  Processor found() const { return find_processor(root_); }

  fs::path root_;
};

TEST_F(FakeRoot, WithoutLimitsAProcessHasTheMachine) {
  const Processor processor = found();
  EXPECT_EQ(processor.name, "Some CPU @ 2 GHz");
  EXPECT_EQ(processor.machine_cores, 64);
  EXPECT_EQ(processor.memory, 128 * kGiB);
  EXPECT_EQ(processor.available, 64 * kGiB);
  EXPECT_EQ(processor.memory, processor.machine_memory);
}

TEST_F(FakeRoot, LimitsOfVersion2HoldFromAnyGroupAbove) {
  write("proc/self/cgroup", "0::/slurm/job_7/step\n");
  write("proc/self/mountinfo", "25 1 0:2 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/slurm/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", std::to_string(16ull << 30));
  write("sys/fs/cgroup/slurm/job_7/memory.current", std::to_string(6ull << 30));
  write("sys/fs/cgroup/slurm/job_7/memory.stat",
        "anon 1\ninactive_file " + std::to_string(2ull << 30) + "\n");
  write("sys/fs/cgroup/slurm/job_7/cpu.max", "50000 100000\n");
  write("sys/fs/cgroup/slurm/job_7/step/memory.max", "max\n");
  const Processor processor = found();
  EXPECT_EQ(processor.memory, 16 * kGiB);
  EXPECT_EQ(processor.available, 12 * kGiB);  // the page cache can be dropped
  EXPECT_EQ(processor.machine_memory, 128 * kGiB);
  EXPECT_EQ(processor.cores, 0.5);
  EXPECT_EQ(processor.threads(), 1);
}

TEST_F(FakeRoot, LimitsOfVersion1InAContainer) {
  // Without its own namespace, a container sees the host's name of its group, but only that group's files.
  write("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n");
  write("proc/self/mountinfo",
        "30 25 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "31 25 0:31 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro master:1 - cgroup cgroup rw,cpu,cpuacct\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(4ull << 30));
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(3ull << 30));
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "25000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const Processor processor = found();
  EXPECT_EQ(processor.memory, 4 * kGiB);
  EXPECT_EQ(processor.available, 1 * kGiB);
  EXPECT_EQ(processor.cores, 0.25);
}

TEST_F(FakeRoot, NoLimitIsAVeryLargeNumberInVersion1) {
  write("proc/self/cgroup", "5:memory:/\n4:cpu:/\n");
  write("proc/self/mountinfo",
        "30 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "31 25 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const Processor processor = found();
  EXPECT_EQ(processor.memory, 128 * kGiB);
  EXPECT_EQ(processor.available, 64 * kGiB);
  EXPECT_GE(processor.cores, 1);
}

TEST_F(FakeRoot, InstructionsForBfloat16) {
  EXPECT_EQ(found().bf16, Bf16::none);
  cpuinfo("fpu avx512f avx512_bf16 avx512_fp16");
  EXPECT_EQ(found().bf16, Bf16::vector);
  cpuinfo("fpu avx512_bf16 amx_bf16 amx_tile");
  EXPECT_EQ(found().bf16, Bf16::amx);
  cpuinfo("fp asimd i8mm bf16 dgh", "Features");
  EXPECT_EQ(found().bf16, Bf16::vector);
  cpuinfo("fp asimd i8mm", "Features");
  EXPECT_EQ(found().bf16, Bf16::none);
}

TEST(ThisMachine, HasAProcessor) {
  const Processor processor = find_processor();
  EXPECT_GT(processor.cores, 0);
  EXPECT_LE(processor.cores, processor.machine_cores);
  EXPECT_GT(processor.available, 0);
  EXPECT_LE(processor.available, processor.memory);
  EXPECT_LE(processor.memory, processor.machine_memory);
}

}  // namespace
}  // namespace dpo::hardware
