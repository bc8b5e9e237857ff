// Tests plans of models whose files bitsandbytes quantized.
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "plan/savings.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

class QuantizedModel : public testing::Test {
 protected:
  QuantizedModel() : folder_(fs::path(testing::TempDir()) / "dpo_quantized_plan_test") {
    fs::create_directories(folder_);
  }
  ~QuantizedModel() override { fs::remove_all(folder_); }

  // Returns a line that plans with such a model.
  std::string line(const std::string& quantization, const std::string& more) const {
    return "model=blank_model model.name_or_path=" + folder("model", quantization) +
           " model.fsdp_policy_mp=bfloat16 loss=dpo loss.beta=0.1 " + more;
  }

  std::string folder(const std::string& name, const std::string& quantization) const {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "config.json")
        << R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 8,
            "num_attention_heads": 8, "vocab_size": 1000, "max_position_embeddings": 2048)"
        << (quantization.empty() ? "" : R"(, "quantization_config": )" + quantization) << "}";
    return (folder_ / name).string();
  }

  static double weights_of(const Plan& plan) {
    for (const MemoryPart& part : plan.memory.parts)
      if (part.name == "parameters") return part.bytes;
    return 0;
  }

  fs::path folder_;
};

const std::string kNf4 =
    R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": )";
const std::string kNested = kNf4 + "true}", kPlain = kNf4 + "false}", kInt8 = R"({"load_in_8bit": true})";
constexpr double kMatrices = 8.0 * (4 * 1024 * 1024 + 3 * 1024 * 2048);

TEST_F(QuantizedModel, IsTrainedAsItIs) {
  const Plan own = plan_of(line("", "adapter=lora adapter.base_dtype=nf4"));
  const Plan nested = plan_of(line(kNested, "adapter=lora")), plain = plan_of(line(kPlain, "adapter=lora"));
  EXPECT_EQ(nested.resolved.adapter.base_dtype, config::BaseDtype::nf4);
  EXPECT_EQ(weights_of(nested), weights_of(own));
  EXPECT_EQ(nested.timing.update, own.timing.update);
  EXPECT_NEAR(weights_of(plain) - weights_of(nested), kMatrices * (4 - 1 - 4.0 / 256) / 64, 1);
  EXPECT_EQ(plan_of(line(kInt8, "adapter=lora")).resolved.adapter.base_dtype, config::BaseDtype::int8);
  EXPECT_EQ(weights_of(plan_of(line(kNested, "adapter=lora adapter.base_dtype=nf4"))), weights_of(nested));
  expect_finding(line(kNested, "adapter=lora"), "base-dtype", Verdict::ok, "as bitsandbytes quantized them");
}

TEST_F(QuantizedModel, HasModulesThatAreNot) {
  const std::string skipping = kNf4 + R"(true, "llm_int8_skip_modules": ["model.layers.3.mlp", "o_proj"]})";
  EXPECT_NEAR(weights_of(plan_of(line(skipping, "adapter=lora"))) -
                  weights_of(plan_of(line(kNested, "adapter=lora"))),
              (3.0 * 1024 * 2048 + 8.0 * 1024 * 1024) * (2 - 0.5 - (1 + 4.0 / 256) / 64), 1);
}

TEST_F(QuantizedModel, HasNoOtherDtype) {
  for (const char* dtype : {"int8", "fp8"}) {
    std::string message = "accepted";
    try {
      plan_of(line(kNested, std::string("adapter=lora adapter.base_dtype=") + dtype));
    } catch (const UserError& error) {
      message = error.what();
    }
    EXPECT_TRUE(message.starts_with("adapter.base_dtype=" + std::string(dtype) +
                                    ": the weights are nf4 already (" +
                                    (folder_ / "model/config.json").string()))
        << message;
  }
}

TEST_F(QuantizedModel, IsRoundedWhereAllWeightsAreTrained) {
  EXPECT_FALSE(plan_of(line(kNested, "")).resolved.adapter.base_dtype);
  EXPECT_EQ(weights_of(plan_of(line(kNested, ""))), weights_of(plan_of(line("", ""))));
  expect_finding(line(kNested, ""), "base-dtype", Verdict::warning,
                 "without an adapter all of them are trained");
  EXPECT_FALSE(plan_of(line("", "")).find("base-dtype"));
  // A remedy may be an adapter.
  const Inputs adapted = changed(inputs_of(line(kNested, "")), {"adapter=lora"});
  EXPECT_EQ(adapted.run.adapter.base_dtype, config::BaseDtype::nf4);
}

// The checkpoint of a full run has unquantized weights. That of an adapter has none of the model's weights.
TEST_F(QuantizedModel, MayBeReplacedByAnArchive) {
  const std::string full = folder("full", ""), archive = " adapter=lora model.archive=";
  EXPECT_FALSE(plan_of(line(kNested, archive + full)).resolved.adapter.base_dtype);
  EXPECT_FALSE(plan_of(line(kNested, archive + full + "/policy.pt")).resolved.adapter.base_dtype);
  EXPECT_TRUE(plan_of(line("", archive + folder("other", kInt8))).resolved.adapter.base_dtype);
  fs::create_directories(folder_ / "adapter");
  std::ofstream(folder_ / "adapter" / "adapter_config.json") << "{}";
  EXPECT_TRUE(plan_of(line(kNested, archive + (folder_ / "adapter").string())).resolved.adapter.base_dtype);
}

// Quantizing the model further is not offered as a way to save memory.
TEST_F(QuantizedModel, KeepsItsBits) {
  const auto offers_bits = [&](const std::string& quantization, const std::string& more) {
    for (const Saving& saving : savings_of(inputs_of(line(quantization, "adapter=lora " + more)), Cost::bits))
      if (saving.overrides.front().starts_with("adapter.base_dtype=")) return true;
    return false;
  };
  EXPECT_TRUE(offers_bits("", "adapter.base_dtype=int8"));
  EXPECT_FALSE(offers_bits(kInt8, ""));
}

// An adapter keeps the quantized weights, so matmuls are no longer in 8 bits.
TEST_F(QuantizedModel, AnAdapterOverItGivesUpFp8) {
  for (const Saving& saving : savings_of(inputs_of(line(kInt8, "fp8=true")), Cost::bits))
    if (saving.overrides.front() == kLora) {
      EXPECT_EQ(saving.overrides, (Overrides{kLora, "fp8=false"}));
      return;
    }
  FAIL() << "no adapter";
}

}  // namespace
}  // namespace dpo::plan
