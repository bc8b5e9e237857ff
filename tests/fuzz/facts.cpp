// One input is a YAML file of a device's figures or of a data set's lengths.
#include <cmath>

#include "memory_file.h"
#include "plan/lengths.h"
#include "plan/machine.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::facts {
namespace {

bool try_device(std::string_view input) {
  const MemoryFile file(input);
  dpo::plan::Device device;
  if (!accepts([&] { device = dpo::plan::load_device(file.path()); })) return false;
  for (const double figure :
       {device.memory, device.memory_bandwidth, device.bf16_flops, device.fp32_flops, device.efficiency,
        device.fp32_efficiency.value_or(1), device.link, device.network})
    if (!std::isfinite(figure) || figure <= 0) fail("an invalid figure was accepted", std::to_string(figure));
  return true;
}

const std::string kDevice =
    "# mine\nmatches: [H100, 'GH 200']\nmemory_gib: 80\nmemory_gbytes_per_second: 3350\nbf16_tflops: 989\n"
    "fp32_tflops: 67.0\nefficiency: 0.45\nlink_gbytes_per_second: 450\nnetwork_gbytes_per_second: 50\n"
    "watts: 700\nusd_per_hour: 3\n";
const std::string kSeeds[] = {
    kDevice,
    kDevice + "per_core: true\ncores: 8\n",
    kDevice + "multiprocessors: 132\nefficiency_fp32: 0.5\n",
    "bf16_tflops: {amx: 0.3, vector: 0.2, none: 0.1}\nfp32_tflops: 0.1\nmemory_gib: null\nefficiency: 0.7\n"
    "memory_gbytes_per_second: 15\nlink_gbytes_per_second: 5\nnetwork_gbytes_per_second: 1\nwatts: 10\n"
    "usd_per_hour: 0.04\nper_core: true\n",
    "{memory_gbytes_per_second: 10, bf16_tflops: .1, fp32_tflops: 0.1, efficiency: 1, "
    "link_gbytes_per_second: "
    "1e1, network_gbytes_per_second: 1, watts: 0, usd_per_hour: 0, per_core: yes}",
};
const Tokens kTokens = yaml_tokens(
    {"  ", "yes", "\x1b[2J", "\"\\x1b\"", "\\n", "watts: ", "cores: ", "matches", "[[", "\"\\q\""});

bool try_lengths(std::string_view input) {
  const MemoryFile file(input);
  dpo::plan::Lengths lengths;
  if (!accepts([&] { lengths = dpo::plan::load_lengths(file.path()); })) return false;
  const auto tokens = dpo::plan::example_tokens(lengths, 512, 256, {});
  if (!std::isfinite(tokens.mean) || tokens.mean < 0)
    fail("a mean that cannot be", std::to_string(tokens.mean));
  return true;
}

const std::string kLengths[] = {
    "train: {prompts: 100, pairs: 120, rankings: 90, ranked: 300}\ntest: {prompts: 10, pairs: 11}\n"
    "prompt: [15.1, 17.7, 454.8]\nresponse: [4, 8.1]\nlongest: {prompt: 833, response: 563, ranking: 4}\n",
    "train:\n  prompts: 1\n  pairs: 1\ntest:\n  prompts: 0\n  pairs: 0\nprompt:\n- 1\n- 2\nresponse: [0]\n"
    "longest: {prompt: 2, response: 1}\n",
};

template <std::size_t N>
std::string make(Mutator& mutator, const std::string (&seeds)[N]) {
  std::string text = mutator.pick(seeds);
  if (mutator.below(3) == 0) mutator.change_number(text);
  mutator.mutate(text, kTokens, 4);
  return text;
}

std::string make_device(Mutator& mutator) { return make(mutator, kSeeds); }
std::string make_lengths(Mutator& mutator) { return make(mutator, kLengths); }

const Registered kLengthsTarget({"lengths_file", make_lengths, try_lengths});
const Registered kDeviceTarget({"device_file", make_device, try_device});

}  // namespace
}  // namespace fuzz::facts
