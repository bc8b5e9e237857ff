// Estimates figures of a GPU from its driver properties. They are rough: a measured file is better.
#include <algorithm>
#include <cstdlib>

#include "plan/device.h"

namespace dpo::plan {
namespace {

// Floating-point operations of a multiprocessor per cycle, by compute capability (a multiply-add is two):
// tensor cores in 16 bits with float32 accumulation, and CUDA cores in float32.
struct Rates {
  int major, minor;  // and newer
  double bf16, fp32;
  double nvlink;  // bytes per second that an exchange reaches, per GPU
};
constexpr Rates kRates[] = {
    {12, 0, 1024, 256, 40e9},   // desktop and workstation Blackwell
    {10, 0, 8192, 256, 720e9},  // B200
    {9, 0, 4096, 256, 360e9},   // H100
    {8, 6, 1024, 256, 40e9},    // A10, RTX 30; Ada
    {8, 0, 2048, 128, 230e9},   // A100
    {7, 0, 1024, 128, 120e9},   // V100, T4
    {0, 0, 256, 256, 40e9},     // no tensor cores
};

const Rates& rates_of(const hardware::Gpu& gpu) {
  return *std::ranges::find_if(kRates, [&](const Rates& r) { return gpu.at_least(r.major, r.minor); });
}

bool is_geforce(const hardware::Gpu& gpu) { return gpu.name.find("GeForce") != std::string::npos; }

// GeForce cards with float32 accumulation are limited to half the rate of the same chip elsewhere.
double bf16_per_cycle(const hardware::Gpu& gpu) {
  const bool limited = is_geforce(gpu) && gpu.at_least(8, 6) && rates_of(gpu).bf16 == 1024;
  return rates_of(gpu).bf16 * (limited ? 0.5 : 1);
}

// "A100-SXM4-40GB MIG 1g.5gb" has an eighth of the memory bandwidth, but the driver reports the whole bus.
double share_of_bus(const hardware::Gpu& gpu) {
  constexpr const char* kMig = " MIG ";
  const auto at = gpu.name.find(kMig);
  if (at == std::string::npos) return 1;
  const long parts = std::strtol(gpu.name.c_str() + at + 5, nullptr, 10);
  return std::clamp(static_cast<double>(parts) / 8, 0.125, 1.0);
}

double bandwidth_of(const hardware::Gpu& gpu) {
  constexpr double kUnknown = 100e9;  // memory shared with the CPU has no separate bus
  const double whole = gpu.bus_bits / 8.0 * gpu.memory_clock * 2;  // double data rate
  return whole > 0 ? whole * share_of_bus(gpu) : kUnknown;
}

// A copy from or to the host reaches three quarters of a slot's rate.
double host_link(const hardware::Gpu& gpu) {
  const double by_age = gpu.at_least(9, 0) ? 64e9 : gpu.at_least(8, 0) ? 32e9 : 16e9;
  return (gpu.pcie > 0 ? gpu.pcie : by_age) * 0.75;
}

// An exchange reaches that rate too, or half of it through host memory if GPUs cannot reach each other
// (GeForce).
double pcie_link(const hardware::Gpu& gpu) { return host_link(gpu) * (is_geforce(gpu) ? 0.5 : 1); }

}  // namespace

// Attention in 16 bits and bfloat16 matmuls need Ampere or newer.
bool supports_bf16(const hardware::Gpu& gpu) { return gpu.at_least(8, 0); }

bool supports_fp8(const hardware::Gpu& gpu) { return gpu.at_least(8, 9); }

Device estimate(const hardware::Gpu& gpu) {
  const Rates& rates = rates_of(gpu);
  const double cycles = gpu.multiprocessors * gpu.clock;
  Device d;
  d.name = gpu.name;
  d.origin = FiguresOrigin::estimated;
  d.memory = static_cast<double>(gpu.memory_bytes);
  d.memory_bandwidth = bandwidth_of(gpu);
  d.fp32_flops = std::max(cycles * rates.fp32, 1e9);  // 1e9: the driver does not report the clock
  d.supports_bf16 = supports_bf16(gpu);
  d.bf16_flops = d.supports_bf16 ? std::max(cycles * bf16_per_cycle(gpu), 1e9) : d.fp32_flops;
  d.efficiency = 0.45;  // lower than most in configs/device: better to finish early than late
  d.link = gpu.nvlink ? rates.nvlink : pcie_link(gpu);
  d.network = 10e9;
  d.host_link = host_link(gpu);
  return d;
}

}  // namespace dpo::plan
