#include <gtest/gtest.h>

#include "base/error.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

Lengths counted(std::int64_t train, std::int64_t test, LengthBasis basis = LengthBasis::tokens) {
  Lengths lengths = extreme_lengths(40, 1).back();
  lengths.basis = basis;
  lengths.train_prompts = lengths.train_pairs = train;
  lengths.test_prompts = lengths.test_pairs = test;
  lengths.prompt = {30};
  lengths.response = {10};
  lengths.longest_prompt = 30;
  lengths.longest_response = 10;
  return lengths;
}

Plan plan_with(const std::string& line, const Lengths& lengths) {
  Inputs in = inputs_of(line);
  in.lengths = lengths;
  return make_plan(in);
}

TEST(Mismatched, NeedsAnotherExampleInEveryBatch) {
  const std::string kto = "model=gpt2-xl loss=kto loss.beta=0.1 eval_every=8 ";
  EXPECT_EQ(verdict_of(plan_of(kto + "batch_size=2 eval_batch_size=2"), "mismatched"), Verdict::ok);
  EXPECT_EQ(plan_of("model=gpt2-xl loss=dpo loss.beta=0.1 batch_size=1").find("mismatched"), nullptr);
  for (const std::string key : {"batch_size", "eval_batch_size"}) {
    const Plan plan = plan_of(kto + key + "=1");
    const Finding& finding = *plan.find("mismatched");
    EXPECT_EQ(finding.verdict, Verdict::error);
    EXPECT_NE(finding.message.find("with " + key + "=1 there is none"), std::string::npos);
    EXPECT_EQ(finding.remedies.at(0).overrides, (std::vector<std::string>{key + "=2"}));
  }
}

TEST(Truncation, WarnsOfMuchThatIsCut) {
  const auto finding = [](const CutExamples& cut, LengthBasis basis, const std::string& more = "") {
    Lengths lengths = counted(1000, 100, basis);
    lengths.cuts = {512, 256, {cut}};
    const Plan plan = plan_with("model=gpt2-xl loss=dpo loss.beta=0.1 batch_size=8 " + more, lengths);
    const Finding* const found = plan.find("truncation");
    return found ? *found : Finding{};
  };
  EXPECT_EQ(finding({"a", 1000}, LengthBasis::tokens).message, "max_length=512 cuts no example");
  EXPECT_EQ(finding({"a", 1000, 100, 100, 100}, LengthBasis::sample).verdict, Verdict::ok);
  for (const CutExamples& cut :
       {CutExamples{"a", 1000, 101}, CutExamples{"a", 1000, 0, 101}, CutExamples{"a", 1000, 0, 0, 101}}) {
    EXPECT_EQ(finding(cut, LengthBasis::sample).verdict, Verdict::warning);
    EXPECT_EQ(finding(cut, LengthBasis::tokens).verdict, Verdict::warning);
  }
  const std::string message = finding({"a", 1000, 0, 1000, 790}, LengthBasis::sample).message;
  EXPECT_NE(message.find("a: of 1,000 sampled examples 790 lose turns of the conversation, 1,000 have a cut "
                         "response. The model does not see"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("try a larger max_length (the model's context is 1024)"), std::string::npos)
      << message;
  EXPECT_EQ(finding({"a", 1000, 900}, LengthBasis::sample, "max_length=600").id, "");  // other limit
}

TEST(LabelBalance, AdvisesWeightsForUnequalNumbers) {
  const std::string kto = "model=gpt2-xl loss=kto loss.beta=0.1 eval_every=null batch_size=8 ";
  const auto labelled = [](std::int64_t good, std::int64_t bad, std::int64_t pairs = 0) {
    Lengths lengths = counted(pairs, 0);
    lengths.train_labels = good + bad;
    lengths.train_desirable = good;
    return lengths;
  };
  const auto verdict = [&](const std::string& more, const Lengths& lengths) {
    return verdict_of(plan_with(kto + more, lengths), "labels");
  };
  EXPECT_EQ(plan_with(kto, counted(100, 0)).find("labels"), nullptr);  // pairs only
  EXPECT_EQ(plan_with("model=gpt2-xl loss=sft", labelled(50, 50)).find("labels"), nullptr);
  EXPECT_EQ(verdict("", labelled(50, 50)), Verdict::ok);
  EXPECT_EQ(verdict("", labelled(66, 50)), Verdict::ok);
  EXPECT_EQ(verdict("", labelled(67, 50)), Verdict::warning);
  EXPECT_EQ(verdict("", labelled(49, 50)), Verdict::warning);
  EXPECT_EQ(verdict("", labelled(90, 50, 1000)), Verdict::ok);
  EXPECT_EQ(verdict("", labelled(50, 0)), Verdict::warning);
  EXPECT_EQ(verdict("loss.desirable_weight=0.5", labelled(100, 50)), Verdict::ok);
  const Plan plan = plan_with(kto, labelled(300, 50));
  const Finding& finding = *plan.find("labels");
  EXPECT_NE(finding.message.find("300 good and 50 bad responses, weighted 6 to 1"), std::string::npos)
      << finding.message;
  ASSERT_EQ(finding.remedies.size(), 1u);
  EXPECT_EQ(verdict(finding.remedies[0].overrides.at(0), labelled(300, 50)), Verdict::ok);
  const Plan few = plan_with(kto, labelled(50, 300));
  EXPECT_EQ(verdict(few.find("labels")->remedies.at(0).overrides.at(0), labelled(50, 300)), Verdict::ok);
}

TEST(UnpairedExamples, ArePairsAndLabels) {
  Inputs in = inputs_of("model=gpt2-xl loss=kto loss.beta=0.1 batch_size=8");
  in.lengths = counted(30, 0);
  in.lengths.train_labels = 90;
  const ExampleUnit mixed = unit_of(in.run.loss, in.lengths);
  EXPECT_EQ(mixed.in_epoch, 120);
  EXPECT_EQ(mixed.responses.mean, 1.25);
  EXPECT_EQ(mixed.responses.most, 2);
  EXPECT_STREQ(mixed.name, "example");
  in.lengths.train_pairs = 0;
  EXPECT_EQ(unit_of(in.run.loss, in.lengths).responses.most, 1);
  EXPECT_EQ(make_workload(in, ReferenceMode::live).example.mean, 40);
  const double rows = make_workload(in, ReferenceMode::live).response_rows;
  in.lengths.scored = 0.5;  // the head computes only scored tokens
  EXPECT_EQ(make_workload(in, ReferenceMode::live).response_rows, rows / 2);
}

TEST(PromptRoom, APromptLeavesRoomForAResponse) {
  expect_finding("model=pythia28 max_length=256 max_prompt_length=256", "prompt-room", Verdict::error,
                 "max_prompt_length=256 leaves no room for a response within max_length=256");
  expect_finding("model=pythia28 max_length=257 max_prompt_length=256", "prompt-room", Verdict::ok, "");
}

TEST(Context, OfTheModelIsLongEnough) {
  expect_finding("model=pythia28 max_length=4096", "context", Verdict::error,
                 "max_length=4096 exceeds the model's context of 2048 tokens");
  expect_finding("model=gpt2-large max_length=1025", "context", Verdict::error, "context of 1024 tokens");
  expect_finding("model=blank_model model.name_or_path=mistralai/Mistral-7B-v0.1 max_length=32769", "context",
                 Verdict::error, "context of 32768 tokens");  // not the window
  expect_finding("model=gpt2-large max_length=1024", "context", Verdict::ok, "");
}

TEST(Float16, IsNotThePolicysType) {
  expect_finding("model=pythia28 model.policy_dtype=float16", "float16", Verdict::error, "bfloat16");
  expect_finding("model=pythia28 model.fsdp_policy_mp=float16", "float16", Verdict::error, "bfloat16");
  EXPECT_EQ(plan_of("model=pythia28 model.reference_dtype=float16 loss=dpo loss.beta=0.1").find("float16"),
            nullptr);
}

TEST(Adapter, SharesItsWeightsWithTheReference) {
  expect_finding("model=pythia28 adapter=lora", "adapter", Verdict::ok, "parameters are trained");
  expect_finding("model=pythia28 adapter=lora model.reference_dtype=float16", "adapter", Verdict::error,
                 "model.reference_dtype must be null");
  EXPECT_FALSE(plan_of("model=pythia28").find("adapter"));
  EXPECT_FALSE(plan_of("model=pythia28 adapter=lora").find("base-dtype"));
  expect_finding("model=pythia28 adapter=lora adapter.base_dtype=int8", "base-dtype", Verdict::ok,
                 "frozen matrices in int8");
  for (const char* mesh : {"", "mesh.shard=2 mesh.tensor=2", "mesh.replica=4 mesh.shard=1 mesh.tensor=1"})
    expect_finding(
        std::string("model=pythia28 adapter=lora adapter.base_dtype=nf4 trainer=FSDPTrainer batch_size=64 "
                    "--gpus 4 ") +
            mesh,
        "base-dtype", Verdict::ok, "frozen matrices in nf4");
}

TEST(Experts, HaveABalanceLossIfAsked) {
  const std::string olmoe = "model=olmoe ", coefficient = "model.router_aux_loss_coef=0.01";
  expect_finding(olmoe, "experts", Verdict::ok, "each token goes to 8 of 64 experts, without a balance loss");
  expect_finding(olmoe + coefficient, "experts", Verdict::ok, "balance loss times 0.01");
  expect_finding("model=pythia28 " + coefficient, "experts", Verdict::error,
                 "is for mixtures of experts, but EleutherAI/pythia-2.8b has no experts");
  EXPECT_EQ(plan_of("model=pythia28").find("experts"), nullptr);
}

TEST(ReferenceModel, OfPreferenceLossesWasFineTuned) {
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1", "reference", Verdict::warning, "no model.archive");
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1 model.archive=/no/such/policy.pt", "reference",
                 Verdict::warning, "model.archive=/no/such/policy.pt not found on this machine");
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1 model.archive=/", "reference", Verdict::ok, "");
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1 loss.reference_free=true", "reference", Verdict::ok,
                 "reference-free");
  expect_finding("model=pythia28 loss=sft", "reference", Verdict::ok, "SFT needs no reference");
  expect_finding("model=pythia28 model.archive=/no/such loss=kto loss.beta=0.1 reference=cached", "reference",
                 Verdict::error, "reference=cached does not work with loss=kto");
  for (const char* loss : {"loss=sft", "loss=simpo loss.beta=2"})
    expect_finding(std::string("model=pythia28 model.archive=/no/such ") + loss, "reference",
                   Verdict::warning,
                   "model.archive=/no/such not found on this machine; the policy starts from it");
}

// The advice to fine-tune first applies only to base models and to the start of a run.
TEST(ReferenceModel, OfAnInstructModelNeedsNoArchive) {
  Inputs in = inputs_of("model=pythia28 loss=dpo loss.beta=0.1");
  const auto verdict = [&] { return verdict_of(make_plan(in), "reference"); };
  in.host.has_chat_template = false;
  EXPECT_EQ(verdict(), Verdict::warning);
  in.host.has_chat_template = true;
  EXPECT_EQ(verdict(), Verdict::ok);
  in.host.has_chat_template = false;
  in.host.resumes = true;
  EXPECT_EQ(verdict(), Verdict::ok);
}

TEST(ReferenceModel, IsChosenByThePlannerWhenLeftOpen) {
  const std::string line = "model=llama7b loss=dpo loss.beta=0.1 model.fsdp_policy_mp=bfloat16 batch_size=4 ";
  EXPECT_EQ(plan_of(line + "--device h200").reference, ReferenceMode::live);
  EXPECT_EQ(plan_of(line + "--device h200 n_epochs=2").reference,
            ReferenceMode::cached);  // scored once, used twice
  Inputs tight = inputs_of(line + "--device h200");
  tight.machine.device.memory = make_plan(tight).memory.total();  // of which the driver keeps a small part
  EXPECT_EQ(make_plan(tight).reference, ReferenceMode::cached);
  EXPECT_TRUE(make_plan(tight).fits());
  EXPECT_EQ(plan_of(line + "reference=live n_epochs=2").reference, ReferenceMode::live);
  EXPECT_EQ(plan_of("model=pythia28").reference, ReferenceMode::none);
}

TEST(LengthsRule, AMeanIsNeverNegative) {
  expect_finding("model=pythia28 max_length=10", "lengths", Verdict::ok, "10 tokens per example on average");
}

TEST(LengthsRule, SaysWhoseStatisticsAreUsed) {
  expect_finding("model=pythia28 datasets=[shp]", "lengths", Verdict::hint,
                 "shp is not on this machine and has no statistics: planned with those of hh");
  expect_finding("model=pythia28", "lengths", Verdict::ok, "from the statistics of hh");
}

TEST(LengthsRule, SaysHowTheDataWasCounted) {
  const auto message = [](LengthBasis basis) {
    return plan_with("model=pythia28", counted(200, 8, basis)).find("lengths")->message;
  };
  EXPECT_EQ(message(LengthBasis::tokens), "200 examples, 40 tokens per example on average, all counted");
  EXPECT_EQ(message(LengthBasis::sample),
            "200 examples counted, 40 tokens per example on average in a sample");
  EXPECT_NE(message(LengthBasis::bytes).find("estimated at four bytes per token"), std::string::npos);
}

TEST(AssumedLengths, CauseWarningsOnly) {
  const std::string line = "model=pythia28 batch_size=32 eval_every=320 ";
  Inputs in = inputs_of(line + "datasets=[mine.jsonl]");
  in.host.free_disk = 100e9;  // 503 checkpoints of another data set's size would not fit
  Plan plan = make_plan(in);
  EXPECT_EQ(verdict_of(plan, "disk"), Verdict::warning);
  EXPECT_NE(plan.find("disk")->message.find("; only a warning, since it depends on the statistics of hh"),
            std::string::npos);
  EXPECT_TRUE(plan.passes());
  in.host.free_disk = 1e9;  // not even one fits, whatever the data
  EXPECT_EQ(verdict_of(make_plan(in), "disk"), Verdict::error);
  in = inputs_of(line + "datasets=[hh]");  // the data set of these statistics
  in.host.free_disk = 100e9;
  EXPECT_EQ(verdict_of(make_plan(in), "disk"), Verdict::error);

  const std::string large =
      "model=pythia28 datasets=[mine.jsonl] batch_size=200000 eval_every=200000 "
      "gradient_accumulation_steps=200000 ";
  EXPECT_EQ(verdict_of(plan_of(large), "batch-size"), Verdict::warning);
  EXPECT_NO_THROW(require_full_batch(plan_of(large)));
  EXPECT_EQ(verdict_of(plan_of(large + "datasets=[hh]"), "batch-size"), Verdict::error);
  // plan.strict does not apply to guesses.
  const std::string strict =
      "model=pythia28 datasets=[mine.jsonl] n_examples=null warmup_steps=100000 plan.strict=true ";
  EXPECT_EQ(verdict_of(plan_of(strict), "warmup"), Verdict::warning);
  // A batch with long texts does not fit, but one with short texts would.
  const std::string memory = "model=pythia28 batch_size=128 optimizer=SGD --device a100-80gb datasets=";
  EXPECT_EQ(verdict_of(plan_of(memory + "[hh]"), "memory"), Verdict::error);
  EXPECT_EQ(verdict_of(plan_of(memory + "[mine.jsonl]"), "memory"), Verdict::warning);
}

TEST(SmallData, IsNoticed) {
  const Plan plan = plan_with("model=pythia28 batch_size=4", counted(200, 3));
  EXPECT_EQ(verdict_of(plan, "warmup"), Verdict::warning);
  EXPECT_NE(plan.find("warmup")->message.find("warmup_steps=150 is not less than the run's 50 updates"),
            std::string::npos);
  EXPECT_EQ(verdict_of(plan, "eval-batch"), Verdict::hint);
  EXPECT_NE(plan.find("eval-batch")->message.find("the test split has only 3 examples"), std::string::npos);
  EXPECT_TRUE(plan.passes());
  const std::string kto = "model=gpt2-xl loss=kto loss.beta=0.1 batch_size=4";
  EXPECT_EQ(verdict_of(plan_with(kto, counted(200, 2)), "mismatched"), Verdict::ok);
  EXPECT_EQ(verdict_of(plan_with(kto, counted(200, 1)), "mismatched"), Verdict::error);
  EXPECT_EQ(verdict_of(plan_with(kto + " eval_batch_size=2", counted(200, 3)), "mismatched"), Verdict::error);
  EXPECT_EQ(verdict_of(plan_with(kto + " eval_batch_size=3", counted(200, 4)), "mismatched"), Verdict::ok);
}

TEST(Warmup, EndsBeforeTheRun) {
  expect_finding("model=pythia28 n_examples=400", "warmup", Verdict::warning,
                 "not less than the run's 100 updates");
  expect_finding("model=pythia28", "warmup", Verdict::ok, "150 of 40,200 updates");
}

TEST(FullBatch, IsTheFirstFindingAndAnErrorOfItsOwn) {
  const Plan plan = plan_with("model=pythia28 batch_size=64", counted(12, 3));
  EXPECT_EQ(plan.findings.front().id, kFullBatch);
  EXPECT_EQ(plan.find("warmup"), nullptr);
  try {
    require_full_batch(plan);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "batch_size=64 is more than the data's 12 examples, so there would be no update; try "
                 "batch_size=12 (the largest that the data fills)");
  }
  EXPECT_EQ(plan_with("model=pythia28 batch_size=12", counted(12, 3)).find(kFullBatch), nullptr);
  EXPECT_NE(plan_with("model=pythia28 batch_size=1 eval_batch_size=1", counted(1, 1))
                .find("warmup")
                ->message.find("not less than the run's 1 update:"),
            std::string::npos);
}

TEST(KnownSettings, WarnOfALearningRateThatCannotWork) {
  const std::string line = "model=pythia28 batch_size=32 lr=";
  expect_finding(line + "1", "known-settings", Verdict::warning, "lr=1 is outside 1e-07 to 5e-05");
  expect_finding(line + "1e-2", "known-settings", Verdict::hint, "");
  expect_finding(line + "1 optimizer=SGD", "known-settings", Verdict::hint, "");
  expect_finding(kDpo + "batch_size=32 lr=1e-2", "known-settings", Verdict::warning, "lr=0.01 is outside");
}

TEST(KnownSettings, AreHintsOtherwise) {
  expect_finding("model=pythia28 batch_size=32 lr=1e-4 adapter=lora", "known-settings", Verdict::ok, "");
  expect_finding("model=pythia28 batch_size=32 lr=5e-7 adapter=lora", "known-settings", Verdict::hint,
                 "where LoRA with loss=sft is known to work (usual: 1e-4 to 2e-4)");
  expect_finding("model=pythia28 batch_size=32 lr=1e-3", "known-settings", Verdict::hint,
                 "lr=0.001 is outside");
  expect_finding(kDpo + "batch_size=32 loss.beta=5", "known-settings", Verdict::hint,
                 "loss.beta=5 is outside");
  expect_finding("model=pythia28 batch_size=1", "known-settings", Verdict::hint,
                 "batch_size=1 is small (usual: 32 to 128)");
  const std::string simpo = "model=pythia28 loss=simpo batch_size=32 loss.beta=";
  expect_finding(simpo + "2", "known-settings", Verdict::ok, "");
  expect_finding(simpo + "0.1", "known-settings", Verdict::hint, "(usual for loss=simpo: 2 to 10)");
  expect_finding("model=pythia28 loss=orpo loss.beta=0.1 batch_size=32 lr=8e-6", "known-settings",
                 Verdict::ok, "");
  expect_finding(kDpo + "batch_size=32", "known-settings", Verdict::ok, "");
}

}  // namespace
}  // namespace dpo::plan
