#include "plan/savings.h"

#include <fmt/format.h>

#include "config/compose.h"

namespace dpo::plan {
namespace {

constexpr std::int64_t kShortest = 128;  // no run is told to cut texts below this

// Settings that another optimizer does not have would be refused.
Words optimizer_words(const config::RunConfig& run, const std::string& optimizer) {
  Words words = {"optimizer=" + optimizer};
  if (run.optimizer_betas) words.push_back("optimizer_betas=null");
  if (run.optimizer_eps && optimizer == "SGD") words.push_back("optimizer_eps=null");
  return words;
}

}  // namespace

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Inputs changed(const Inputs& in, const Words& words) {
  Inputs result = in;
  Words overrides;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--gpus")
      result.machine.gpus = std::stoll(words[++i]);
    else if (words[i] == "--device")
      result.machine.device = load_device(words[++i]);
    else
      overrides.push_back(words[i]);
  }
  result.run = config::with_overrides(in.run, overrides);
  return result;
}

Words without_mesh(const Inputs& in) {
  Words words;
  if (in.run.mesh.replica) words.push_back("mesh.replica=null");
  if (in.run.mesh.shard) words.push_back("mesh.shard=null");
  if (in.run.mesh.tensor) words.push_back("mesh.tensor=null");
  return words;
}

std::vector<Saving> harmless_savings(const Inputs& in) {
  const config::RunConfig& run = in.run;
  std::vector<Saving> ways;
  if (!run.model.fsdp_policy_mp && run.model.policy_dtype == "float32")
    ways.push_back({{"model.fsdp_policy_mp=bfloat16"}, "mixed precision"});
  if (needs_reference(run.loss) && run.model.reference_dtype == "float32")
    ways.push_back({{"model.reference_dtype=null"}, "the reference in the type of the policy"});
  if (needs_reference(run.loss) && run.reference == "live" && can_cache(run.loss))
    ways.push_back({{"reference=cached"}, "reference scores computed once, then the reference is freed"});
  if (run.fsdp_accumulate == "whole")
    ways.push_back({{"fsdp_accumulate=sharded"}, "gradients summed in shards"});
  if (run.mesh.replica.value_or(1) > 1)
    ways.push_back({without_mesh(in), "one group of shards instead of replicas"});
  if (!run.activation_checkpointing)
    ways.push_back({{"activation_checkpointing=true"}, "activation checkpointing"});
  return ways;
}

std::vector<Saving> costly_savings(const Inputs& in) {
  const config::RunConfig& run = in.run;
  std::vector<Saving> ways;
  if (run.fsdp_reduce_dtype == "float32" && run.trainer == "FSDPTrainer")
    ways.push_back({{"fsdp_reduce_dtype=bfloat16"}, "gradients exchanged in 16 bits"});
  if (run.model.policy_dtype == "float32")
    ways.push_back({{"model.policy_dtype=bfloat16"}, "weights and optimizer state in 16 bits"});
  if (run.optimizer == "Adam" || run.optimizer == "AdamW")
    ways.push_back({optimizer_words(run, "RMSprop"), "half of Adam's state"});
  if (run.optimizer != "SGD")
    ways.push_back({optimizer_words(run, "SGD"), "no optimizer state (with a far higher lr)"});
  for (const std::int64_t part : {2, 4}) {
    const std::int64_t length = run.max_length / part;
    if (length < kShortest) break;
    Words words = {fmt::format("max_length={}", length)};
    if (run.max_prompt_length >= length) words.push_back(fmt::format("max_prompt_length={}", length / 2));
    ways.push_back({words, "shorter texts: more of them is cut off"});
  }
  return ways;
}

std::vector<Saving> all_savings(const Inputs& in) {
  std::vector<Saving> ways = harmless_savings(in);
  const std::vector<Saving> costly = costly_savings(in);
  ways.insert(ways.end(), costly.begin(), costly.end());
  return ways;
}

Saving joined(const std::vector<Saving>& savings) {
  Saving all;
  for (const Saving& saving : savings) {
    for (const std::string& word : saving.words) {
      const std::string key = word.substr(0, word.find('=') + 1);
      std::erase_if(all.words, [&](const std::string& other) { return other.starts_with(key); });
      all.words.push_back(word);
    }
    all.reason += (all.reason.empty() ? "" : ", ") + saving.reason;
  }
  return all;
}

}  // namespace dpo::plan
