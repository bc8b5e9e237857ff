#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/quantity.h"
#include "config/assets.h"
#include "plan/output.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;
using hardware::Gpu;

Gpu gpu(const std::string& name, int major, int minor, int multiprocessors, double mhz, double memory_mhz,
        int bus, double gib) {
  Gpu made;
  made.name = name;
  made.capability_major = major;
  made.capability_minor = minor;
  made.multiprocessors = multiprocessors;
  made.clock = mhz * 1e6;
  made.memory_clock = memory_mhz * 1e6;
  made.bus_bits = bus;
  made.memory_bytes = static_cast<std::uint64_t>(gib * kGib);
  return made;
}

const Gpu kH200 = gpu("NVIDIA H200", 9, 0, 132, 1980, 3201, 6144, 139.8);
const Gpu kRtx3090 = gpu("NVIDIA GeForce RTX 3090", 8, 6, 82, 1695, 9751, 384, 23.7);
const Gpu kT4 = gpu("Tesla T4", 7, 5, 40, 1590, 5001, 256, 14.6);

hardware::Gpus usable(std::vector<Gpu> gpus) { return {std::move(gpus), ""}; }

// A folder of the user's device files that no other test sees.
class OwnDevices : public testing::Test {
 protected:
  OwnDevices() : config_(fs::path(testing::TempDir()) / "dpo_own_devices") {
    fs::remove_all(config_);
    if (const char* before = std::getenv("XDG_CONFIG_HOME")) before_ = before;
    ::setenv("XDG_CONFIG_HOME", config_.c_str(), 1);
    fs::create_directories(own_device_folder());
  }
  ~OwnDevices() override {
    fs::remove_all(config_);
    if (before_.empty())
      ::unsetenv("XDG_CONFIG_HOME");
    else
      ::setenv("XDG_CONFIG_HOME", before_.c_str(), 1);
  }
  static void keep(const DeviceFile& file) {
    std::ofstream(own_device_folder() / (file.name + ".yaml")) << file.text;
  }

  fs::path config_;
  std::string before_;
};

TEST(Estimate, IsNearTheVendorsFigures) {
  struct Case {
    Gpu gpu;
    double bf16, fp32, bandwidth;  // TFLOP/s, GB/s; bf16 0: not supported
  };
  const Case cases[] = {
      {kH200, 989, 67, 4800},
      {gpu("NVIDIA B200", 10, 0, 148, 1965, 3996, 8192, 179), 2250, 75, 8000},
      {gpu("NVIDIA A100-SXM4-80GB", 8, 0, 108, 1410, 1593, 5120, 79), 312, 19.5, 2039},
      {gpu("NVIDIA L40S", 8, 9, 142, 2520, 9001, 384, 44), 362, 91.6, 864},
      {gpu("NVIDIA GeForce RTX 4090", 8, 9, 128, 2520, 10501, 384, 24), 165, 82.6, 1008},
      {kRtx3090, 71, 35.6, 936},
      {gpu("NVIDIA A10", 8, 6, 72, 1695, 6251, 384, 22), 125, 31.2, 600},
      {gpu("NVIDIA L4", 8, 9, 58, 2040, 6251, 192, 22), 121, 30.3, 300},
      {gpu("NVIDIA GeForce RTX 5090", 12, 0, 170, 2407, 14001, 512, 31), 209, 104.8, 1792},
      {kT4, 0, 8.1, 320},
      {gpu("Tesla V100-SXM2-16GB", 7, 0, 80, 1530, 877, 4096, 15.8), 0, 15.7, 900},
  };
  for (const Case& c : cases) {
    const Device device = estimate(c.gpu);
    EXPECT_EQ(device.origin, FiguresOrigin::estimated);
    EXPECT_EQ(device.supports_bf16, c.bf16 > 0) << c.gpu.name;
    const double bf16 = c.bf16 > 0 ? c.bf16 : c.fp32;
    EXPECT_NEAR(device.bf16_flops / 1e12, bf16, 0.1 * bf16) << c.gpu.name;
    EXPECT_NEAR(device.fp32_flops / 1e12, c.fp32, 0.1 * c.fp32) << c.gpu.name;
    EXPECT_NEAR(device.memory_bandwidth / 1e9, c.bandwidth, 0.05 * c.bandwidth) << c.gpu.name;
    EXPECT_GT(device.link, 1e9) << c.gpu.name;
  }
}

TEST(Estimate, KnowsLinksAndSlices) {
  Gpu a100 = gpu("NVIDIA A100-SXM4-40GB", 8, 0, 108, 1410, 1215, 5120, 39.6);
  EXPECT_EQ(estimate(a100).link, 24e9);  // PCIe of that time
  a100.pcie = 16e9;
  EXPECT_EQ(estimate(a100).link, 12e9);
  a100.nvlink = true;
  EXPECT_EQ(estimate(a100).link, 230e9);
  const Gpu slice = gpu("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 8, 0, 14, 1410, 1215, 5120, 4.7);
  EXPECT_NEAR(estimate(slice).memory_bandwidth, estimate(a100).memory_bandwidth / 8, 1);
  EXPECT_NEAR(estimate(slice).bf16_flops, 312e12 * 14 / 108, 1e12);
  // Even if a driver reports nothing, no figure is 0.
  const Device nothing = estimate(gpu("Some GPU", 0, 0, 0, 0, 0, 0, 1));
  EXPECT_GT(nothing.fp32_flops, 0);
  EXPECT_GT(nothing.memory_bandwidth, 0);
}

TEST_F(OwnDevices, AShippedFileDescribesItsOwnDeviceAndNoOther) {
  struct Case {
    Gpu gpu;
    std::string file;  // "" if estimated
  };
  const Case cases[] = {
      {kH200, "h200"},
      {gpu("H200", 9, 0, 132, 1980, 3201, 6144, 139.8), "h200"},  // an older driver's name
      {gpu("NVIDIA H200 NVL", 9, 0, 132, 1785, 3201, 6144, 139.8), ""},
      {gpu("NVIDIA GH200 480GB", 9, 0, 132, 1980, 2619, 6144, 94.5), ""},
      {gpu("NVIDIA GH200 144G HBM3e", 9, 0, 132, 1980, 3201, 6144, 139.8), ""},
      {gpu("NVIDIA H100 80GB HBM3", 9, 0, 132, 1980, 2619, 5120, 79.1), "h100"},
      {gpu("NVIDIA H100 PCIe", 9, 0, 114, 1755, 1593, 5120, 79.1), ""},
      {gpu("NVIDIA H100 NVL", 9, 0, 132, 1785, 2619, 6144, 93.1), ""},
      {gpu("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 9, 0, 60, 1980, 2619, 5120, 39.3), ""},
      {gpu("NVIDIA B200", 10, 0, 148, 1965, 3996, 8192, 178.4), "b200"},
      {gpu("NVIDIA GB200", 10, 0, 152, 2062, 3996, 8192, 184), ""},
      {gpu("NVIDIA A100-SXM4-40GB", 8, 0, 108, 1410, 1215, 5120, 39.4), "a100-40gb"},
      {gpu("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 8, 0, 14, 1410, 1215, 5120, 4.7), ""},
      {gpu("NVIDIA A100-PCIE-40GB", 8, 0, 108, 1410, 1215, 5120, 39.4), ""},
      {gpu("NVIDIA A100-SXM4-80GB", 8, 0, 108, 1410, 1593, 5120, 79.2), "a100-80gb"},
      {gpu("NVIDIA A100 80GB PCIe", 8, 0, 108, 1410, 1512, 5120, 79.2), ""},
      {gpu("NVIDIA GeForce RTX 4090", 8, 9, 128, 2520, 10501, 384, 23.5), "rtx4090"},
      {gpu("NVIDIA GeForce RTX 4090 D", 8, 9, 114, 2520, 10501, 384, 23.5), ""},
      {gpu("NVIDIA GeForce RTX 4090 Laptop GPU", 8, 9, 76, 2040, 9001, 256, 15.7), ""},
      {gpu("NVIDIA L40S", 8, 9, 142, 2520, 9001, 384, 44.4), "l40s"},
      {gpu("NVIDIA L40S", 8, 9, 142, 2520, 9001, 384, 22.2), ""},  // half of it, as clouds rent it
      {kRtx3090, ""},
      {kT4, ""},
  };
  for (const Case& c : cases) {
    const Device device = device_of(c.gpu);
    const std::string file = c.file.empty() ? "" : "configs/device/" + c.file + ".yaml";
    EXPECT_EQ(device.file, file) << c.gpu.name;
    EXPECT_EQ(device.origin, c.file.empty() ? FiguresOrigin::estimated : FiguresOrigin::shipped)
        << c.gpu.name;
    EXPECT_EQ(device.memory, static_cast<double>(c.gpu.memory_bytes)) << c.gpu.name;  // the driver's value
  }
}

Inputs inputs_on(const std::string& line, const hardware::Gpus& gpus) {
  config::Request request;
  request.overrides = words_of("exp_name=test " + line);
  return gather_inputs(config::compose(request).values, find_machine({}, gpus));
}

TEST_F(OwnDevices, AnyGpuIsPlannedAndMarkedAsEstimated) {
  const Inputs in = inputs_on("model=pythia28 batch_size=4", usable({kRtx3090, kRtx3090}));
  EXPECT_EQ(in.machine.gpus, 2);
  EXPECT_TRUE(in.machine.here);
  const Plan plan = make_plan(in);
  const std::string text = to_text(plan, in, false);
  EXPECT_NE(text.find("2 x NVIDIA GeForce RTX 3090 (estimated)"), std::string::npos) << text;
  EXPECT_NE(text.find("estimated from its driver"), std::string::npos) << text;
  EXPECT_EQ(text.find("energy and cost"), std::string::npos) << text;  // neither is known
  EXPECT_NE(to_json(plan, in, std::nullopt).find("\"device_figures\": \"estimated\""), std::string::npos);
  EXPECT_NEAR(plan.memory.available, 0.97 * static_cast<double>(kRtx3090.memory_bytes), 1e6);
}

// Compares the estimates with the figures of the H200's own file.
TEST_F(OwnDevices, AnEstimatedH200IsPlannedWithinAFifthOfItsFile) {
  Machine told = find_machine({}, usable({kH200}));
  Machine estimated = told;
  estimated.device = estimate(kH200);
  ASSERT_EQ(told.device.file, "configs/device/h200.yaml");
  const std::string line =
      "exp_name=test model=pythia28 loss=dpo loss.beta=0.1 batch_size=64 optimizer=AdamW reference=live ";
  for (const std::string more : {"model.fsdp_policy_mp=bfloat16", "gradient_accumulation_steps=4"}) {
    config::Request request;
    request.overrides = words_of(line + more);
    const config::RunConfig run = config::compose(request).values;
    const double by_file = assess(gather_inputs(run, told)).timing.update;
    const double by_driver = assess(gather_inputs(run, estimated)).timing.update;
    EXPECT_NEAR(by_driver, by_file, 0.2 * by_file) << more;
  }
}

// Checks the same for the GPU of this machine.
TEST_F(OwnDevices, TheEstimateOfThisMachinesGpuIsNearItsFile) {
  const auto& gpus = hardware::find_gpus().found;
  if (gpus.empty() || device_of(gpus.front()).origin != FiguresOrigin::shipped)
    GTEST_SKIP() << "no GPU that a shipped file describes";
  const Device told = device_of(gpus.front()), guessed = estimate(gpus.front());
  EXPECT_NEAR(guessed.bf16_flops, told.bf16_flops, 0.2 * told.bf16_flops);
  EXPECT_NEAR(guessed.fp32_flops, told.fp32_flops, 0.2 * told.fp32_flops);
  EXPECT_NEAR(guessed.memory_bandwidth, told.memory_bandwidth, 0.2 * told.memory_bandwidth);
  EXPECT_NEAR(guessed.training_flops(true), told.training_flops(true), 0.2 * told.training_flops(true));
}

TEST_F(OwnDevices, AFileOfOnesOwnWinsAndThePlanSaysSo) {
  const Measured measured{
      .bf16 = 700e12, .fp32 = 50e12, .bandwidth = 4e12, .from_host = 50e9, .to_host = 40e9, .link = {}};
  const DeviceFile file = describe_measured(kH200, measured, "2026-11-16");
  EXPECT_EQ(file.name, "h200");  // takes precedence over the shipped file
  keep(file);
  const Machine machine = find_machine({}, usable({kH200}));
  const Device& device = machine.device;
  EXPECT_EQ(device.origin, FiguresOrigin::own);
  EXPECT_EQ(device.bf16_flops, 989e12);  // the peak stays the vendor's, so shares of it keep their meaning
  EXPECT_NEAR(device.training_flops(true), 0.7 * 700e12, 1e12);
  EXPECT_NEAR(device.training_flops(false), 0.7 * 50e12, 1e11);
  EXPECT_EQ(device.memory_bandwidth, 4e12);
  EXPECT_EQ(device.link, load_device("h200").link);
  ASSERT_EQ(machine.notes.size(), 1u);
  EXPECT_NE(machine.notes[0].find((own_device_folder() / "h200.yaml").string()), std::string::npos);
  // The file is found by name too, and only for this device.
  EXPECT_EQ(load_device("h200").origin, FiguresOrigin::own);
  EXPECT_EQ(find_machine({.device = "h200"}).notes.size(), 1u);
  EXPECT_EQ(load_device("h100").origin, FiguresOrigin::shipped);
  EXPECT_EQ(device_of(kRtx3090).origin, FiguresOrigin::estimated);
  // A second measurement gives the same figures.
  EXPECT_EQ(describe_measured(kH200, measured, "2026-11-16").text, file.text);
}

TEST_F(OwnDevices, AMeasuredGpuWithoutAFileGetsOne) {
  const Measured measured{
      .bf16 = 90e12, .fp32 = 30e12, .bandwidth = 800e9, .from_host = 20e9, .to_host = 20e9, .link = 10e9};
  const DeviceFile file = describe_measured(kRtx3090, measured, "2026-11-16");
  EXPECT_EQ(file.name, "geforce-rtx-3090");
  keep(file);
  const Device device = device_of(kRtx3090);
  EXPECT_EQ(device.origin, FiguresOrigin::own);
  EXPECT_EQ(device.bf16_flops, 90e12);  // more than the known peak, so it becomes the peak
  EXPECT_NEAR(device.efficiency, 0.7, 1e-3);
  EXPECT_EQ(device.link, 10e9);
  Gpu laptop = kRtx3090;
  laptop.multiprocessors = 48;
  EXPECT_EQ(device_of(laptop).origin, FiguresOrigin::estimated);
}

TEST_F(OwnDevices, AMeasuredProcessorIsUsedWhereItIsTheSame) {
  hardware::Processor processor;
  processor.name = "Some CPU's core @ 2 GHz";
  processor.cores = 4;
  processor.memory = 8 * kGib;
  const DeviceFile file = describe_measured(
      processor,
      {.bf16 = 0.1e12, .fp32 = 0.4e12, .bandwidth = 80e9, .from_host = {}, .to_host = {}, .link = {}},
      "2026-11-16");
  EXPECT_EQ(file.name, "cpu-some-cpu-s-core-2-ghz");
  keep(file);
  processor.cores = 2;
  const Device device = device_of(processor);
  EXPECT_EQ(device.origin, FiguresOrigin::own);
  EXPECT_TRUE(device.is_cpu);
  EXPECT_NEAR(device.fp32_flops, 0.2e12, 1e8);
  EXPECT_NEAR(device.bf16_flops, 0.05e12, 1e8);
  EXPECT_EQ(device.memory, 8 * kGib);
  processor.name = "Another CPU";
  EXPECT_EQ(device_of(processor).origin, FiguresOrigin::shipped);
}

TEST(UnusedGpus, AreAWarningWithWhatToDo) {
  const hardware::Gpus gpus{{kRtx3090}, "this dpo was built without CUDA: ./run build"};
  const Inputs in = inputs_on("model=pythia28 batch_size=8", gpus);
  EXPECT_TRUE(in.machine.device.is_cpu);
  const Plan plan = make_plan(in);
  ASSERT_NE(plan.find("gpus"), nullptr);
  EXPECT_EQ(verdict_of(plan, "gpus"), Verdict::warning);
  const std::string& message = plan.find("gpus")->message;
  EXPECT_NE(message.find("RTX 3090"), std::string::npos) << message;
  EXPECT_NE(message.find("./run build"), std::string::npos) << message;
  EXPECT_EQ(make_plan(inputs_on("model=pythia28", usable({kRtx3090}))).find("gpus"), nullptr);
  // For another machine, it does not matter which GPUs this build can use.
  EXPECT_EQ(find_machine({.gpus = 8}, gpus).device.name, kRtx3090.name);
  // A driver that does not start reports no GPU at all.
  EXPECT_EQ(verdict_of(make_plan(inputs_on("model=pythia28", {{}, "it does not start"})), "gpus"),
            Verdict::warning);
}

TEST(FindMachine, OfGpusThatDifferTheSmallestCounts) {
  const Machine machine = find_machine({}, usable({kRtx3090, kT4}));
  EXPECT_EQ(machine.device.name, "Tesla T4");
  EXPECT_EQ(machine.gpus, 2);
  EXPECT_NE(machine.notes.at(0).find("differ"), std::string::npos);
}

TEST(ReadMachines, CountsMachinesAndGpus) {
  const auto read = [](const std::string& text) {
    MachineRequest request;
    read_machines(text, request);
    return std::tuple(*request.nodes, *request.gpus, *request.device);
  };
  EXPECT_EQ(read("8xh100"), std::tuple(1, 8, "h100"));
  EXPECT_EQ(read("4x8xh100"), std::tuple(4, 8, "h100"));
  EXPECT_EQ(read("2xrtx4090"), std::tuple(1, 2, "rtx4090"));
  EXPECT_EQ(read("8x./own 2x.yaml"), std::tuple(1, 8, "./own 2x.yaml"));
  for (const char* wrong :
       {"", "h100", "8", "8x", "4x8x", "xh100", "8*h100", "0xh100", "-1xh100", "99999999999999999999xh100"})
    EXPECT_THROW(read(wrong), UserError) << wrong;
}

TEST(FindMachine, TheUsersLinksReplaceTheDevices) {
  const Machine machine = find_machine({.gpus = 8, .device = "h100", .link = 25, .network = 12.5});
  EXPECT_EQ(machine.device.link, 25e9);
  EXPECT_EQ(machine.device.network, 12.5e9);
  EXPECT_EQ(find_machine({.device = "h100", .link = 25}).device.network, load_device("h100").network);
  for (const double wrong : {0.0, -1.0, std::nan(""), 1e7})
    EXPECT_THROW(find_machine({.device = "h100", .link = wrong}), UserError) << wrong;
}

TEST(Precision, AGpuWithout16BitsIsToldSo) {
  const std::string line = "model=pythia28 batch_size=4 ";
  const Plan half = make_plan(inputs_on(line + "model.fsdp_policy_mp=bfloat16", usable({kT4})));
  EXPECT_EQ(verdict_of(half, "precision"), Verdict::error);
  EXPECT_EQ(make_plan(inputs_on(line, usable({kT4}))).find("precision"), nullptr);
  EXPECT_EQ(
      make_plan(inputs_on(line + "model.fsdp_policy_mp=bfloat16", usable({kRtx3090}))).find("precision"),
      nullptr);
}

Device processor_with(hardware::Bf16 kind) {
  hardware::Processor processor;
  processor.cores = 4;
  processor.memory = 64 * kGib;
  processor.bf16 = kind;
  return device_of(processor);
}

TEST_F(OwnDevices, AutoIsTheTypeThatIsFastestOnTheDevice) {
  using config::Dtype;
  const auto type = [](const Device& device, Dtype weights = Dtype::float32) {
    config::ModelConfig model;
    model.policy_dtype = weights;
    model.fsdp_policy_mp = Dtype::automatic;
    const auto note = resolve_precision(model, device);
    EXPECT_NE(note.value_or("").find("model.fsdp_policy_mp=auto computes in"), std::string::npos);
    return model.fsdp_policy_mp.value_or(weights);
  };
  EXPECT_EQ(type(processor_with(hardware::Bf16::none)), Dtype::float32);
  EXPECT_EQ(type(processor_with(hardware::Bf16::amx)), Dtype::bfloat16);
  EXPECT_EQ(type(device_of(kH200)), Dtype::bfloat16);
  EXPECT_EQ(type(device_of(kT4)), Dtype::float32);
  EXPECT_EQ(type(device_of(kH200), Dtype::float16), Dtype::float16);
  // Measured figures take precedence.
  Device slow = device_of(kH200);
  slow.bf16_flops = slow.fp32_flops / 2;
  EXPECT_EQ(type(slow), Dtype::float32);
  config::ModelConfig said;
  said.fsdp_policy_mp = Dtype::bfloat16;
  EXPECT_FALSE(resolve_precision(said, processor_with(hardware::Bf16::none)));
  EXPECT_EQ(said.fsdp_policy_mp, Dtype::bfloat16);
}

TEST_F(OwnDevices, TheSearchTakesBfloat16WhereItPays) {
  Inputs in = inputs_of("model=gpt2-large batch_size=8");
  const auto takes_half = [&](hardware::Bf16 kind) {
    in.machine.device = processor_with(kind);
    const auto fit = find_fastest(in);
    return fit && config::computed_dtype(fit->plan.resolved) == config::Dtype::bfloat16;
  };
  EXPECT_TRUE(takes_half(hardware::Bf16::amx));
  EXPECT_FALSE(takes_half(hardware::Bf16::none));
}

TEST_F(OwnDevices, ThePlanSaysWhatAutoIs) {
  const Inputs in = inputs_on("model=pythia28 model.fsdp_policy_mp=auto", usable({kH200}));
  EXPECT_EQ(in.run.model.fsdp_policy_mp, config::Dtype::bfloat16);
  const Plan plan = make_plan(in);
  EXPECT_NE(to_text(plan, in, false).find("model.fsdp_policy_mp=auto computes in bfloat16"),
            std::string::npos);
  EXPECT_NE(to_json(plan, in, std::nullopt).find("\"compute_dtype\": \"bfloat16\""), std::string::npos);
}

}  // namespace
}  // namespace dpo::plan
