#include "model/spec/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dpo::model {
namespace {

using nlohmann::json;

const json& empty_object() {
  static const json nothing = json::object();
  return nothing;
}

// Returns "rope_parameters", which files of transformers before version 5 call "rope_scaling".
const json& rope_object(const ConfigReader& in) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* value = in.find(key);
    if (!value) continue;
    if (!value->is_object()) in.fail(fmt::format("'{}' is not an object", key));
    return *value;
  }
  return empty_object();
}

// Returns the parameters of one kind of layer, "full_attention" or "sliding_attention". Old files have only
// those of full attention.
const json& rope_object(const ConfigReader& in, const char* layers) {
  const json* by_kind = in.find("rope_parameters");
  if (!by_kind) return std::string_view(layers) == "full_attention" ? rope_object(in) : empty_object();
  const auto found = by_kind->find(layers);
  if (found == by_kind->end() || found->is_null()) return empty_object();
  if (!found->is_object()) in.fail(fmt::format("'{}' of 'rope_parameters' is not an object", layers));
  return *found;
}

// Returns the one object for all layers.
const json& common_rope_object(const ConfigReader& in) {
  const json& rope = rope_object(in);
  for (const auto& [name, member] : rope.items())
    if (member.is_object())
      in.fail(fmt::format(
          "the rotary embeddings are given by kind of layer ('{}'), which this family does not have", name));
  return rope;
}

std::vector<float> read_factors(const ConfigReader& rope, const char* key, std::int64_t pairs) {
  const json* list = rope.find(key);
  const auto is_positive = [](const json& value) { return value.is_number() && value.get<double>() > 0; };
  if (!list || !list->is_array() || static_cast<std::int64_t>(list->size()) != pairs ||
      !std::all_of(list->begin(), list->end(), is_positive))
    rope.fail(fmt::format("the rotary embedding's '{}' is not a list of {} numbers above 0", key, pairs));
  return list->get<std::vector<float>>();
}

double read_factor(const ConfigReader& rope, double fallback) {
  const double factor = rope.number("factor", fallback);
  if (factor < 1) rope.fail("the rotary embedding's 'factor' is missing or below 1");
  return factor;
}

void read_llama3(Rotary& rotary, const ConfigReader& rope) {
  rotary.scaling = Rotary::Scaling::llama3;
  rotary.factor = read_factor(rope, 0);
  rotary.low_frequency_factor = rope.number("low_freq_factor", 1);
  rotary.high_frequency_factor = rope.number("high_freq_factor", 4);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor || rotary.low_frequency_factor <= 0)
    rope.fail(
        "the rotary embedding's 'high_freq_factor' must be above its 'low_freq_factor', and both above 0");
}

double yarn_scale(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

// Returns a number. A value of 0 counts as absent, as in Python.
double number_or(const ConfigReader& rope, const char* key, double fallback) {
  const double value = rope.number(key, fallback);
  return value == 0 ? fallback : value;
}

void read_yarn(Rotary& rotary, const ConfigReader& rope, double stretch) {
  rotary.scaling = Rotary::Scaling::yarn;
  rotary.factor = read_factor(rope, stretch);
  rotary.beta_fast = number_or(rope, "beta_fast", 32);
  rotary.beta_slow = number_or(rope, "beta_slow", 1);
  rotary.truncate = rope.flag("truncate", true);
  const double mscale = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
  const double usual = mscale > 0 && all > 0
                           ? yarn_scale(rotary.factor, mscale) / yarn_scale(rotary.factor, all)
                           : yarn_scale(rotary.factor, 1);
  rotary.attention_factor = rope.number("attention_factor", usual);
  if (rotary.theta <= 1 || rotary.beta_fast <= rotary.beta_slow)
    rope.fail("the rotary embedding's 'rope_theta' must be above 1, and its 'beta_fast' above 'beta_slow'");
}

void read_longrope(Rotary& rotary, const ConfigReader& rope, double stretch) {
  rotary.scaling = Rotary::Scaling::longrope;
  rotary.short_factors = read_factors(rope, "short_factor", rotary.dim / 2);
  rotary.long_factors = read_factors(rope, "long_factor", rotary.dim / 2);
  const double factor = rope.number("factor", stretch);
  const auto original = static_cast<double>(std::max<std::int64_t>(rotary.original_context, 2));
  const double usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  rotary.attention_factor = rope.number("attention_factor", usual);
}

void read_scaling(Rotary& rotary, const ConfigReader& in, const ConfigReader& rope, const ModelShape& shape) {
  std::string type = rope.text("rope_type", rope.text("type", "default").c_str());
  if (shape.family == Family::phi3 && (type == "su" || type == "yarn")) type = "longrope";  // old names
  const auto original = in.optional_size("original_max_position_embeddings");
  rotary.original_context =
      original ? *original : rope.optional_size("original_max_position_embeddings").value_or(shape.context);
  const double stretch = static_cast<double>(shape.context) / static_cast<double>(rotary.original_context);
  if (type == "default") return;
  // Dynamic scaling changes frequencies only beyond the context, where no sequence may end.
  if (type == "dynamic") return void(read_factor(rope, 0));
  if (type == "llama3") return read_llama3(rotary, rope);
  if (type == "yarn") return read_yarn(rotary, rope, stretch);
  if (type == "longrope") return read_longrope(rotary, rope, stretch);
  if (type != "linear")
    rope.fail(
        fmt::format("rotary embeddings of type '{}' are not supported (supported: default, dynamic, linear, "
                    "llama3, longrope, yarn)",
                    type));
  rotary.scaling = Rotary::Scaling::linear;
  rotary.factor = read_factor(rope, 0);
}

Rotary read_gptj_rotary(const ConfigReader& in, const ModelShape& shape) {
  Rotary rotary;
  rotary.interleaved = true;
  rotary.dim = in.optional_size("rotary_dim").value_or(64);
  if (rotary.dim > shape.head_dim || rotary.dim % 2 != 0)
    in.fail(fmt::format("'rotary_dim' is {}, expected an even number up to the head's {}", rotary.dim,
                        shape.head_dim));
  return rotary;
}

Rotary read_modern_rotary(const ConfigReader& in, const json& object, const ModelShape& shape, double theta) {
  const ConfigReader rope(object, in.origin());
  Rotary rotary;
  rotary.interleaved = shape.layer_kind() == LayerKind::cohere;
  rotary.theta = rope.number("rope_theta", theta);
  const bool neox = shape.layer_kind() == LayerKind::gpt_neox;
  const double part = rope.number(
      "partial_rotary_factor", neox ? in.number("rotary_pct", 0.25) : in.number("partial_rotary_factor", 1));
  rotary.dim = static_cast<std::int64_t>(static_cast<double>(shape.head_dim) * part);
  if (part > 1 || rotary.dim < 2 || rotary.dim % 2 != 0 || rotary.theta <= 0)
    in.fail(fmt::format("rotary embeddings over {} of a head's {} dimensions with base {} are not valid",
                        rotary.dim, shape.head_dim, rotary.theta));
  read_scaling(rotary, in, rope, shape);
  return rotary;
}

// Stretches long waves, keeps short ones, and blends those between.
double llama3_frequency(const Rotary& rotary, float frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto context = static_cast<double>(rotary.original_context);
  const double low = rotary.low_frequency_factor, high = rotary.high_frequency_factor;
  const double blend = std::clamp((context / wavelength - low) / (high - low), 0.0, 1.0);
  return (1 - blend) * frequency / rotary.factor + blend * frequency;
}

// Returns the number of the pair that turns `turns` times in the original context.
double yarn_pair(const Rotary& rotary, double turns) {
  const auto context = static_cast<double>(rotary.original_context);
  return static_cast<double>(rotary.dim) * std::log(context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rotary.theta));
}

double yarn_frequency(const Rotary& rotary, float frequency, std::int64_t pair) {
  double low = yarn_pair(rotary, rotary.beta_fast), high = yarn_pair(rotary, rotary.beta_slow);
  if (rotary.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary.dim - 1));
  if (low == high) high += 0.001;
  const double stretched = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return stretched * frequency / rotary.factor + (1 - stretched) * frequency;
}

}  // namespace

Rotary read_rotary(const ConfigReader& in, const ModelShape& shape) {
  switch (shape.layer_kind()) {
    case LayerKind::gpt2: return {};
    case LayerKind::gptj: return read_gptj_rotary(in, shape);
    case LayerKind::gpt_neox:
      return read_modern_rotary(in, common_rope_object(in), shape, in.number("rotary_emb_base", 10000));
    case LayerKind::llama:
    case LayerKind::gemma:
    case LayerKind::olmo2:
    case LayerKind::cohere:
    case LayerKind::mixture: break;
  }
  const json& rope =
      has_two_rotaries(shape.family) ? rope_object(in, "full_attention") : common_rope_object(in);
  return read_modern_rotary(in, rope, shape, in.number("rope_theta", 10000));
}

Rotary read_window_rotary(const ConfigReader& in, const ModelShape& shape) {
  const double theta = in.number("rope_local_base_freq", in.number("rope_theta", 10000));
  return read_modern_rotary(in, rope_object(in, "sliding_attention"), shape, theta);
}

std::vector<float> rotary_frequencies(const Rotary& rotary, bool is_long) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < rotary.dim / 2; ++i) {
    const auto exponent = static_cast<float>(2 * i) / static_cast<float>(rotary.dim);
    const float wave = std::pow(static_cast<float>(rotary.theta), exponent);
    const float frequency = 1.0F / wave;
    switch (rotary.scaling) {
      case Rotary::Scaling::none: frequencies.push_back(frequency); break;
      case Rotary::Scaling::linear:
        frequencies.push_back(frequency / static_cast<float>(rotary.factor));
        break;
      case Rotary::Scaling::llama3:
        frequencies.push_back(static_cast<float>(llama3_frequency(rotary, frequency)));
        break;
      case Rotary::Scaling::yarn:
        frequencies.push_back(static_cast<float>(yarn_frequency(rotary, frequency, i)));
        break;
      case Rotary::Scaling::longrope: {
        const auto& factors = is_long ? rotary.long_factors : rotary.short_factors;
        frequencies.push_back(1.0F / (factors[static_cast<std::size_t>(i)] * wave));
        break;
      }
    }
  }
  return frequencies;
}

}  // namespace dpo::model
