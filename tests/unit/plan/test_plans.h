// Makes plans for tests from a command line as a user would type it, on devices that need not exist.
#pragma once

#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "config/compose.h"
#include "plan/gather_inputs.h"
#include "plan/plan.h"

namespace dpo::plan {

inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Parses "--gpus N", "--nodes N" and "--device NAME" among the arguments as the program does. The result does
// not depend on this machine.
inline Inputs inputs_of(const std::string& line) {
  config::Request request;
  MachineRequest machine;
  machine.gpus = 1;
  machine.device = "a100-80gb";
  const auto words = words_of("exp_name=test " + line);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--gpus")
      machine.gpus = std::stoll(words[++i]);
    else if (words[i] == "--nodes")
      machine.nodes = std::stoll(words[++i]);
    else if (words[i] == "--device")
      machine.device = words[++i];
    else
      request.overrides.push_back(words[i]);
  }
  return gather_inputs(config::compose(request).values, find_machine(machine));
}

inline Plan plan_of(const std::string& line) { return make_plan(inputs_of(line)); }

inline Verdict verdict_of(const Plan& plan, const std::string& id) { return plan.find(id)->verdict; }

// The configurations of the main results of direct-preference-optimization.
inline const std::string kReferenceSft =
    "model=pythia28 datasets=[hh] loss=sft gradient_accumulation_steps=2 batch_size=64 eval_batch_size=32 "
    "trainer=FSDPTrainer sample_during_eval=false model.fsdp_policy_mp=bfloat16 --gpus 4 ";
inline const std::string kReferenceDpo =
    "model=pythia28 datasets=[hh] loss=dpo loss.beta=0.1 gradient_accumulation_steps=2 batch_size=32 "
    "eval_batch_size=32 "
    "trainer=FSDPTrainer sample_during_eval=false model.fsdp_policy_mp=bfloat16 model.archive=sft/LATEST "
    "--gpus 4 ";

inline const std::string kDpo = "model=pythia28 loss=dpo loss.beta=0.1 model.archive=sft ";

// Expects a finding whose message contains `message`.
inline void expect_finding(const std::string& line, const std::string& id, Verdict verdict,
                           const std::string& message) {
  const Plan plan = plan_of(line);
  const Finding* finding = plan.find(id);
  ASSERT_TRUE(finding) << id << " does not apply to: " << line;
  EXPECT_EQ(finding->verdict, verdict) << line << "\n" << finding->message;
  EXPECT_NE(finding->message.find(message), std::string::npos) << finding->message;
}

// Returns fixed lengths of prompts and responses: by default, 200 tokens per pair and 150 per SFT example.
inline Lengths fixed_lengths(double prompt = 100, double response = 50) {
  Lengths lengths;
  lengths.name = "fixed";
  lengths.train_prompts = lengths.train_pairs = 100'000;
  lengths.prompt = {prompt};
  lengths.response = {response};
  lengths.longest_prompt = prompt;
  lengths.longest_response = response;
  return lengths;
}

}  // namespace dpo::plan
