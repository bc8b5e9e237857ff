#include "model/spec/adapter_config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_problem.h"

namespace dpo::model {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of patterns, which matters

// Settings that are not supported. They leave the matmul unchanged only if they are null, false or empty.
constexpr const char* kUnsupported[] = {"lora_bias",
                                        "use_qalora",
                                        "use_bdlora",
                                        "layer_replication",
                                        "trainable_token_indices",
                                        "alora_invocation_tokens",
                                        "arrow_config",
                                        "kasa_config",
                                        "velora_config",
                                        "monteclora_config",
                                        "megatron_config"};

class Reader {
 public:
  Reader(std::string_view text, std::string origin) : origin_(std::move(origin)) {
    if (is_nested_deeply(text)) fail(fmt::format("nested deeper than {} levels", kDeepestJson));
    object_ = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!object_.is_object()) fail("not a JSON object");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}: {}", origin_, what));
  }

  // Returns null if the key is missing.
  Json get(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? Json() : *found;
  }

  bool flag(const char* key) const {
    const Json value = get(key);
    if (!value.is_null() && !value.is_boolean()) fail(fmt::format("'{}' is not true or false", key));
    return value.is_boolean() && value.get<bool>();
  }

  double number(const char* key, const Json& value, double above) const {
    if (!value.is_number() || !(value.get<double>() > above))
      fail(fmt::format("'{}' is {}, expected a number above {}", key, value.dump(), above));
    return value.get<double>();
  }

  std::int64_t rank(const char* key, const Json& value) const {
    constexpr std::int64_t kLargest = 65536;
    if (!value.is_number_integer() || value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > kLargest)
      fail(fmt::format("'{}' is {}, expected a whole number from 1 to {}", key, value.dump(), kLargest));
    return value.get<std::int64_t>();
  }

  std::vector<std::string> texts(const char* key) const {
    const Json value = get(key);
    if (value.is_null()) return {};
    if (value.is_string()) return {value.get<std::string>()};
    const auto is_text = [](const Json& item) { return item.is_string(); };
    if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text))
      fail(fmt::format("'{}' is not a list of names", key));
    return value.get<std::vector<std::string>>();
  }

  template <class Read>
  auto patterns(const char* key, const Read& read) const {
    std::vector<std::pair<std::string, decltype(read(Json()))>> all;
    const Json value = get(key);
    if (!value.is_null() && !value.is_object()) fail(fmt::format("'{}' is not an object", key));
    for (const auto& [pattern, item] : value.items()) all.emplace_back(pattern, read(item));
    return all;
  }

 private:
  std::string origin_;
  Json object_;
};

bool is_unset(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_structured() && value.empty());
}

void check_supported(const Reader& in) {
  if (const Json type = in.get("peft_type"); type != "LORA")
    in.fail(fmt::format("'peft_type' is {}: only LORA is supported", type.dump()));
  if (const Json bias = in.get("bias"); !bias.is_null() && bias != "none")
    in.fail(fmt::format("'bias' is {}: only \"none\" is supported", bias.dump()));
  // PiSSA, OLoRA and similar methods change the model's own weights too.
  const Json init = in.get("init_lora_weights");
  const bool keeps_base =
      init.is_null() || init.is_boolean() || init == "gaussian" || init == "eva" || init == "orthogonal";
  if (!keeps_base)
    in.fail(
        fmt::format("'init_lora_weights' is {}: it changes the model's own weights too, so the adapter "
                    "does not work with them; PEFT can convert it to LoRA when it saves",
                    init.dump()));
  if (const Json experts = in.get("target_parameters"); !is_unset(experts))
    in.fail(fmt::format(
        "'target_parameters' is {}: LoRA of experts and routers is not supported; of a mixture of "
        "experts, target_modules may name the attention's matrices",
        experts.dump()));
  for (const char* key : kUnsupported)
    if (const Json value = in.get(key); !is_unset(value))
      in.fail(fmt::format("'{}' is {}: not supported", key, value.dump()));
}

// Writes a whole alpha without a decimal point, as PEFT's own files do.
Json shortest(double number) {
  if (std::floor(number) == number && std::abs(number) < 1e15) return static_cast<std::int64_t>(number);
  return number;
}

// Splits ORG/NAME@REVISION into its two parts. A folder stays as it is.
std::pair<Json, Json> base_and_revision(const std::string& base) {
  const std::size_t at = base.starts_with('/') ? base.npos : base.find('@');
  if (base.empty() || at == base.npos) return {base.empty() ? Json() : Json(base), Json()};
  return {base.substr(0, at), base.substr(at + 1)};
}

bool has_transposed(const TensorTable& model) {
  return std::ranges::any_of(model.blocks, [](const Block& block) {
    return std::ranges::any_of(block.tensors, &TensorInfo::transposed);
  });
}

}  // namespace

AdapterConfig parse_adapter_config(std::string_view text, const std::string& origin) {
  const Reader in(text, origin);
  check_supported(in);
  AdapterConfig config;
  AdapterSettings& settings = config.settings;
  settings.r = in.rank("r", in.get("r"));
  settings.alpha = in.number("lora_alpha", in.get("lora_alpha"), 0);
  if (const Json dropout = in.get("lora_dropout"); dropout.is_number())
    settings.dropout = dropout.get<double>();
  settings.targets = in.texts("target_modules");
  settings.modules_to_save = in.texts("modules_to_save");
  settings.rslora = in.flag("use_rslora");
  settings.dora = in.flag("use_dora");
  settings.rank_pattern =
      in.patterns("rank_pattern", [&](const Json& value) { return in.rank("rank_pattern", value); });
  settings.alpha_pattern =
      in.patterns("alpha_pattern", [&](const Json& value) { return in.number("alpha_pattern", value, 0); });
  if (const Json base = in.get("base_model_name_or_path"); base.is_string())
    config.base = base.get<std::string>();
  if (const Json revision = in.get("revision"); revision.is_string() && revision != "main")
    config.base += "@" + revision.get<std::string>();
  return config;
}

std::string text_of(const AdapterConfig& config, const TensorTable& model) {
  const AdapterSettings& settings = config.settings;
  Json ranks = Json::object(), alphas = Json::object();
  for (const auto& [pattern, value] : settings.rank_pattern) ranks[pattern] = value;
  for (const auto& [pattern, value] : settings.alpha_pattern) alphas[pattern] = shortest(value);
  const auto [base, revision] = base_and_revision(config.base);
  const std::vector<std::string> modules = peft_modules_to_save(model, settings);
  const Json saved = modules.empty() ? Json() : Json(modules);
  const Json object = {{"alpha_pattern", alphas},
                       {"base_model_name_or_path", base},
                       {"bias", "none"},
                       {"fan_in_fan_out", has_transposed(model)},
                       {"inference_mode", true},
                       {"init_lora_weights", true},
                       {"layers_pattern", nullptr},
                       {"layers_to_transform", nullptr},
                       {"lora_alpha", shortest(settings.alpha)},
                       {"lora_dropout", settings.dropout},
                       {"modules_to_save", saved},
                       {"peft_type", "LORA"},
                       {"r", settings.r},
                       {"rank_pattern", ranks},
                       {"revision", revision},
                       {"target_modules", peft_targets(model, settings)},
                       {"task_type", "CAUSAL_LM"},
                       {"use_dora", settings.dora},
                       {"use_rslora", settings.rslora}};
  return object.dump(2) + "\n";
}

}  // namespace dpo::model
