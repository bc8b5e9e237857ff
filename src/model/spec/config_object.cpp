#include "model/spec/config_object.h"

#include <fmt/format.h>

#include "base/json_problem.h"
#include "model/spec/config_reader.h"

namespace dpo::model {
namespace {

using nlohmann::json;

// Returns transformers' defaults where they differ from Llama's. Gemma 3's text part leaves out sizes too.
const char* defaults_of(Family family) {
  switch (family) {
    case Family::gpt2:
    case Family::gpt_neox:
    case Family::gptj:
    case Family::llama:
    case Family::granite: break;
    case Family::mistral:
    case Family::qwen2:
    case Family::qwen3: return R"({"sliding_window": 4096})";
    case Family::gemma2:
      return R"({"num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
        "sliding_window": 4096, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
        "tie_word_embeddings": true, "pad_token_id": 0})";
    case Family::gemma3:
      return R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131072, "query_pre_attn_scalar": 256, "sliding_window": 4096,
        "sliding_window_pattern": 6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
        "tie_word_embeddings": true, "pad_token_id": 0})";
    case Family::phi3:
      return R"({"rms_norm_eps": 1e-05, "original_max_position_embeddings": 4096, "pad_token_id": 32000})";
    case Family::olmo2: return R"({"rms_norm_eps": 1e-05, "pad_token_id": 1})";
    case Family::olmo3:
      return R"({"rms_norm_eps": 1e-05, "pad_token_id": 1, "sliding_window": 4096,
        "sliding_window_pattern": 4, "rope_theta": 500000.0})";
    case Family::smollm3:
      return R"({"num_key_value_heads": 4, "no_rope_layer_interval": 4, "rope_theta": 2000000.0,
        "tie_word_embeddings": true, "pad_token_id": 128004})";
    case Family::cohere:
      return R"({"rope_theta": 500000.0, "logit_scale": 0.0625, "tie_word_embeddings": true,
        "pad_token_id": 0})";
    case Family::mixtral:
      return R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0})";
    case Family::qwen3_moe: return R"({"num_key_value_heads": 4, "sliding_window": 4096})";
    case Family::olmoe: return R"({"rms_norm_eps": 1e-05, "pad_token_id": 1})";
  }
  return "{}";
}

constexpr const char* kImagesAndText = "gemma3";

template <class Json>
bool has_images(const Json& object) {
  const auto type = object.find("model_type");
  return type != object.end() && *type == kImagesAndText;
}

template <class Json>
Json take_text_part(Json& object) {
  Json text = std::move(object["text_config"]);
  text["model_type"] = info_of(Family::gemma3).model_type;
  text["architectures"] = Json::array({"Gemma3ForCausalLM"});
  for (const char* key : {"dtype", "torch_dtype", "bos_token_id", "eos_token_id", "pad_token_id",
                          "tie_word_embeddings", "quantization_config", "transformers_version"})
    if (object.contains(key) && !text.contains(key)) text[key] = object[key];
  return text;
}

}  // namespace

Family family_of(const json& object, const std::string& origin) {
  const ConfigReader in(object, origin);
  const auto it = object.find("model_type");
  if (it == object.end() || !it->is_string()) in.fail("'model_type' is missing or not a string");
  const std::string type = it->get<std::string>();
  std::string list;
  for (const Family family : all_families()) {
    if (type == info_of(family).model_type) return family;
    list += (list.empty() ? "" : ", ") + std::string(info_of(family).model_type);
  }
  // No similar name is suggested: the file states correctly what its weights are, and must not be edited.
  in.fail(fmt::format(
      "model_type '{}' is not supported (supported: {}); choose a model of one of these architectures", type,
      list));
}

json parse_config_object(std::string_view config_json, const std::string& origin) {
  json object;
  if (is_nested_deeply(config_json))
    ConfigReader(object, origin)
        .fail(fmt::format("nested deeper than {} levels; not a model's configuration", kDeepestJson));
  object = json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) ConfigReader(object, origin).fail("not a JSON object");
  if (has_images(object)) {
    const auto text = object.find("text_config");
    if (text == object.end() || !text->is_object())
      ConfigReader(object, origin).fail("'text_config' is missing or not an object");
    object = take_text_part(object);
  }
  const json defaults = json::parse(defaults_of(family_of(object, origin)));
  for (const auto& [key, value] : defaults.items())
    if (!object.contains(key)) object[key] = value;
  return object;
}

std::string text_part_of(const std::string& config_json) {
  auto object = nlohmann::ordered_json::parse(config_json);
  return has_images(object) ? take_text_part(object).dump(2) + "\n" : config_json;
}

}  // namespace dpo::model
