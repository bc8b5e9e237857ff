#include "checkpoint/save_gguf.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <utility>

#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/output_files.h"
#include "checkpoint/adapter.h"
#include "checkpoint/gguf_architecture.h"
#include "text/chat_template.h"
#include "text/generation_config.h"
#include "text/gguf_vocabulary.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;
using model::LayerKind;

// Returns the rows of a matrix, of a bias or of LoRA's B in llama.cpp's order. Its rotary embedding may
// rotate neighbors where the family rotates one dimension of each half. GPT-NeoX has queries, keys and values
// by head.
at::Tensor in_gguf_order(const at::Tensor& rows, const std::string& name, const model::ModelConfig& config) {
  const model::ModelShape& shape = config.shape;
  const auto contains = [&](const char* part) { return name.find(part) != name.npos; };
  // Views the rows as [outer, inner, rest], exchanges two of these dimensions, and makes them rows again.
  const auto exchanged = [&](std::int64_t outer, std::int64_t inner, int one, int other) {
    std::vector<std::int64_t> split = {outer, inner, -1};
    if (rows.dim() == 2) split.push_back(rows.size(1));
    return rows.reshape(split).transpose(one, other).reshape(rows.sizes());
  };
  if (gguf_architecture(shape.family).rotates_neighbors && (contains(".q_proj.") || contains(".k_proj.")))
    return exchanged(contains(".q_proj.") ? shape.heads : shape.kv_heads, 2, 1, 2);
  if (contains(".query_key_value.")) return exchanged(shape.heads, 3, 0, 1);
  return rows;
}

// A tensor of the model as llama.cpp expects it, in float32.
at::Tensor converted(const at::Tensor& stored, const model::TensorInfo& info,
                     const model::ModelConfig& config) {
  at::Tensor values = stored.cpu().to(at::kFloat);
  if (info.transposed) values = values.t();
  const bool is_norm = info.shape.size() == 1 && info.name.ends_with("norm.weight");
  if (config.shape.layer_kind() == LayerKind::gemma && is_norm) values = values + 1;
  return in_gguf_order(values, info.name, config).contiguous();
}

using MakeValues = std::function<at::Tensor()>;

GgufTensor make_tensor(std::string name, std::vector<std::int64_t> shape, GgufDtype dtype, MakeValues make) {
  const auto kept = std::make_shared<at::Tensor>();
  return {std::move(name), dtype, std::move(shape), [kept, make = std::move(make)] {
            *kept = make();
            return std::span(kept->const_data_ptr<float>(), static_cast<std::size_t>(kept->numel()));
          }};
}

GgufTensor factors_tensor(std::string name, std::vector<float> factors) {
  const auto count = static_cast<std::int64_t>(factors.size());
  return {std::move(name), GgufDtype::f32, {count}, [factors = std::move(factors)] {
            return std::span(factors);
          }};
}

// Factors that divide the rotary frequencies, where settings cannot describe the scaling.
std::vector<GgufTensor> rotary_tensors(const model::Rotary& rotary) {
  if (rotary.scaling == model::Rotary::Scaling::longrope)
    return {factors_tensor("rope_factors_long.weight", rotary.long_factors),
            factors_tensor("rope_factors_short.weight", rotary.short_factors)};
  if (rotary.scaling != model::Rotary::Scaling::llama3) return {};
  model::Rotary plain = rotary;
  plain.scaling = model::Rotary::Scaling::none;
  std::vector<float> factors = model::rotary_frequencies(plain);
  const std::vector<float> scaled = model::rotary_frequencies(rotary);
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
  return {factors_tensor("rope_freqs.weight", std::move(factors))};
}

// Chooses the dtype of each tensor.
class DtypeChoice {
 public:
  explicit DtypeChoice(GgufDtype dtype) : dtype_(dtype) {}

  GgufDtype of(const std::string& name, const std::vector<std::int64_t>& shape, bool is_head) {
    if (shape.size() == 1 || name == "position_embd.weight" || name.ends_with("ffn_gate_inp.weight"))
      return GgufDtype::f32;
    if (has_blocks(dtype_) && shape.back() % kGgufBlock != 0) {
      const std::size_t layer_end = name.starts_with("blk.") ? name.find('.', 4) + 1 : 0;
      unblocked_.insert(fmt::format("{} ({})", name.substr(layer_end), shape.back()));
      return GgufDtype::f16;
    }
    return is_head && dtype_ == GgufDtype::q4_0 ? GgufDtype::q8_0 : dtype_;
  }

  std::vector<std::string> notes() const {
    if (unblocked_.empty()) return {};
    return {fmt::format("these tensors are f16, since {} needs rows of a multiple of {} numbers: {}",
                        name_of(dtype_), kGgufBlock, fmt::join(unblocked_, ", "))};
  }

 private:
  GgufDtype dtype_;
  std::set<std::string> unblocked_;
};

class TensorCollector {
 public:
  TensorCollector(const LoadedModel& model, GgufDtype dtype) : model_(model), dtypes_(dtype) {}

  std::vector<GgufTensor> collect() {
    tensors_ = rotary_tensors(model_.config.settings.rotary);
    for (std::size_t i = 0; i < model_.table.blocks.size(); ++i) add_block(i);
    const bool needs_copy =
        gguf_architecture(model_.config.shape.family).needs_head && model_.table.is_tied();
    if (needs_copy) add_matrix(0, 0, model_.table.head_name);
    return std::move(tensors_);
  }

  std::vector<std::string> notes() const { return dtypes_.notes(); }

 private:
  void add_block(std::size_t block) {
    const std::vector<model::TensorInfo>& infos = model_.table.blocks[block].tensors;
    for (std::size_t i = 0; i < infos.size(); ++i) {
      if (infos[i].stack.empty() || infos[i].joined) {
        add_matrix(block, i, infos[i].name);
        continue;
      }
      const std::size_t first = i;
      while (i + 1 < infos.size() && infos[i + 1].stack == infos[first].stack) ++i;
      add_stack(block, first, i + 1);
    }
  }

  std::string name_of(std::size_t block, const std::string& name) const {
    return gguf_name(model_.table, model_.table.blocks[block], name, model_.config.shape.family);
  }

  void add_matrix(std::size_t block, std::size_t index, const std::string& as) {
    const model::TensorInfo& info = model_.table.blocks[block].tensors[index];
    std::vector<std::int64_t> shape = info.shape;
    if (info.transposed) std::ranges::reverse(shape);
    const bool is_head =
        as == model_.table.head_name || (as == model_.table.embedding_name && model_.table.is_tied());
    add(name_of(block, as), std::move(shape), is_head,
        [this_model = &model_, info = &info, tensor = tensor_at(block, index)] {
          return converted(tensor, *info, this_model->config);
        });
  }

  // Adds the experts' matrices [first, last) as one tensor.
  void add_stack(std::size_t block, std::size_t first, std::size_t last) {
    const model::TensorInfo& info = model_.table.blocks[block].tensors[first];
    std::vector<std::int64_t> shape = info.shape;
    shape.insert(shape.begin(), static_cast<std::int64_t>(last - first));
    std::vector<at::Tensor> parts;
    for (std::size_t i = first; i < last; ++i) parts.push_back(tensor_at(block, i));
    add(name_of(block, info.stack), std::move(shape), false,
        [parts = std::move(parts)] { return at::stack(parts).cpu().to(at::kFloat).contiguous(); });
  }

  void add(std::string name, std::vector<std::int64_t> shape, bool is_head, MakeValues make) {
    const GgufDtype dtype = dtypes_.of(name, shape, is_head);
    tensors_.push_back(make_tensor(std::move(name), std::move(shape), dtype, std::move(make)));
  }

  const at::Tensor& tensor_at(std::size_t block, std::size_t index) const {
    return model_.weights.blocks[block].tensors[index].tensor;
  }

  const LoadedModel& model_;
  DtypeChoice dtypes_;
  std::vector<GgufTensor> tensors_;
};

std::uint32_t file_type_of(GgufDtype dtype) {
  switch (dtype) {
    case GgufDtype::f32: return 0;
    case GgufDtype::f16: return 1;
    case GgufDtype::q4_0: return 2;
    case GgufDtype::q8_0: return 7;
    case GgufDtype::bf16: break;
  }
  return 32;
}

GgufMetadata general_metadata(const char* architecture, const char* type, const std::string& name,
                              GgufDtype dtype) {
  return {{"general.architecture", architecture},
          {"general.type", type},
          {"general.name", name},
          {"general.file_type", file_type_of(dtype)},
          {"general.quantization_version", std::uint32_t{2}}};
}

template <typename Item>
void append(std::vector<Item>& items, const std::vector<Item>& more) {
  items.insert(items.end(), more.begin(), more.end());
}

// llama.cpp stops at three tokens that a file names, and at those whose texts it knows, such as <|im_end|>.
void add_ends(GgufMetadata& metadata, std::vector<text::Token> ends, std::optional<text::Token> eos,
              std::vector<std::string>& notes) {
  if (eos) {
    std::erase(ends, *eos);
    ends.insert(ends.begin(), *eos);
  }
  const std::vector<const char*> roles = {"eos", "eot", "eom"};
  for (std::size_t i = 0; i < std::min(ends.size(), roles.size()); ++i)
    metadata.emplace_back(fmt::format("tokenizer.ggml.{}_token_id", roles[i]),
                          static_cast<std::uint32_t>(ends[i]));
  if (ends.size() > roles.size())
    notes.push_back(fmt::format("GGUF names at most {} tokens that end a text, so these may not end one: {}",
                                roles.size(), fmt::join(ends.begin() + 3, ends.end(), ", ")));
}

void add_special_tokens(GgufMetadata& metadata, const text::Tokenizer& tokenizer,
                        const text::GgufVocabulary& vocabulary) {
  const auto add = [&](const char* key, std::optional<text::Token> id) {
    if (id)
      metadata.emplace_back(fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<std::uint32_t>(*id));
  };
  add("bos", tokenizer.bos());
  add("padding", tokenizer.pad());
  const auto unknown =
      std::ranges::find(vocabulary.kinds, static_cast<std::int32_t>(text::GgufToken::unknown));
  if (unknown != vocabulary.kinds.end())
    add("unknown", static_cast<text::Token>(unknown - vocabulary.kinds.begin()));
  const std::vector<text::Token> around = tokenizer.encode("", /*special=*/true);
  metadata.emplace_back("tokenizer.ggml.add_bos_token", !around.empty() && around.front() == tokenizer.bos());
  metadata.emplace_back("tokenizer.ggml.add_eos_token",
                        around.size() > 1 && around.back() == tokenizer.eos());
}

void add_vocabulary(GgufMetadata& metadata, const text::GgufVocabulary& vocabulary) {
  metadata.emplace_back("tokenizer.ggml.model", vocabulary.model);
  metadata.emplace_back("tokenizer.ggml.pre", vocabulary.pre);
  metadata.emplace_back("tokenizer.ggml.tokens", vocabulary.tokens);
  metadata.emplace_back("tokenizer.ggml.token_type", vocabulary.kinds);
  if (vocabulary.model == "gpt2") {
    metadata.emplace_back("tokenizer.ggml.merges", vocabulary.merges);
    return;
  }
  metadata.emplace_back("tokenizer.ggml.scores", vocabulary.scores);
  metadata.emplace_back("tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
}

void add_chat_template(GgufMetadata& metadata, const fs::path& folder) {
  const auto chat_template = text::find_chat_template(folder);
  if (!chat_template) return;
  metadata.emplace_back("tokenizer.chat_template", chat_template->source());
  if (const std::string* const with_tools = chat_template->source_with_tools()) {
    metadata.emplace_back("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
    metadata.emplace_back("tokenizer.chat_template.tool_use", *with_tools);
  }
}

GgufMetadata tokenizer_metadata(const LoadedModel& model, const fs::path& folder,
                                const text::GgufVocabulary& vocabulary, std::vector<std::string>& notes) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  GgufMetadata metadata;
  add_vocabulary(metadata, vocabulary);
  add_special_tokens(metadata, tokenizer, vocabulary);
  const auto generation = model.other_files.find(text::kGenerationConfig);
  add_ends(
      metadata,
      generation == model.other_files.end() ? std::vector<text::Token>{} : text::eos_ids(generation->second),
      tokenizer.eos(), notes);
  add_chat_template(metadata, folder);
  return metadata;
}

// Returns the model's name. If it contains phi-3 or phi3, llama.cpp lets special tokens include the spaces
// after them, as those of Phi-3 do, and cannot load a file without these tokens of Phi-3.
std::string model_name(const fs::path& out, const text::GgufVocabulary& vocabulary,
                       std::vector<std::string>& notes) {
  std::string name = out.stem().string();
  const auto has = [&](const char* token) {
    return std::ranges::find(vocabulary.tokens, token) != vocabulary.tokens.end();
  };
  if (vocabulary.strips_spaces && has("<|assistant|>") && has("<s>") && has("</s>") && has("<unk>") &&
      has("<|endoftext|>"))
    return "phi-3 " + name;
  if (vocabulary.strips_spaces)
    notes.emplace_back(
        "some special tokens include the spaces next to them (lstrip, rstrip), which llama.cpp keeps as "
        "text");
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("phi-3") == lower.npos && lower.find("phi3") == lower.npos ? name : "model";
}

[[noreturn]] void refuse_adapter(const fs::path& folder, const std::string& what) {
  throw UserError(
      fmt::format("{}: an adapter with {} cannot be written as GGUF; merge it into its model: dpo merge "
                  "MODEL {} model.gguf",
                  folder.string(), what, folder.string()));
}

// Collects the pairs of LoRA matrices of an adapter.
class LoraCollector {
 public:
  LoraCollector(const fs::path& folder, const model::ModelConfig& config, GgufDtype dtype)
      : folder_(folder),
        config_(config),
        dtype_(dtype),
        table_(model::tensor_table(config.shape)),
        adapter_(open_adapter(folder, table_)),
        weights_(model::make_weights(adapter_.table, at::kFloat, at::kCPU)) {
    if (adapter_.config.settings.dora) refuse_adapter(folder, "DoRA");
    read_adapter(folder, adapter_, weights_);
  }

  std::vector<GgufTensor> collect() {
    std::vector<GgufTensor> tensors;
    for (std::size_t i = 0; i < adapter_.table.blocks.size(); ++i)
      for (std::size_t j = 0; j < adapter_.table.blocks[i].tensors.size(); j += 2) add_pair(tensors, i, j);
    return tensors;
  }

  double alpha() const { return adapter_.config.settings.alpha; }

 private:
  // Adds A and B, which follow each other in the table.
  void add_pair(std::vector<GgufTensor>& tensors, std::size_t block, std::size_t index) {
    const std::vector<model::TensorInfo>& infos = adapter_.table.blocks[block].tensors;
    const std::string& name = infos[index].name;
    const std::size_t ending = name.rfind(".lora_A.weight");
    if (ending == name.npos) refuse_adapter(folder_, "modules_to_save");
    const std::string matrix = name.substr(0, ending) + ".weight";
    const auto found = std::ranges::find(table_.blocks[block].tensors, matrix, &model::TensorInfo::name);
    if (!found->stack.empty() && !found->joined) refuse_adapter(folder_, "LoRA of experts");
    const std::string as = gguf_name(table_, table_.blocks[block], matrix, config_.shape.family);
    const at::Tensor &a = weights_.blocks[block].tensors[index].tensor,
                     &b = weights_.blocks[block].tensors[index + 1].tensor;
    // llama.cpp multiplies by alpha / r; rank_pattern, alpha_pattern and rsLoRA need another factor.
    const double factor =
        alpha() == 0 ? 0 : infos[index + 1].scale * static_cast<double>(a.size(0)) / alpha();
    tensors.push_back(make_tensor(as + ".lora_a", a.sizes().vec(), dtype_, [a] { return a.contiguous(); }));
    tensors.push_back(make_tensor(as + ".lora_b", b.sizes().vec(), dtype_, [this, b, matrix, factor] {
      return (in_gguf_order(b, matrix, config_) * factor).contiguous();
    }));
  }

  const fs::path& folder_;
  const model::ModelConfig& config_;
  GgufDtype dtype_;
  model::TensorTable table_;
  AdapterInfo adapter_;
  model::Weights weights_;
};

}  // namespace

SavedGguf save_gguf(const fs::path& out, const LoadedModel& model, GgufDtype dtype, const fs::path& tokenizer,
                    const ProgressCallback& progress) {
  check_absent(out);
  SavedGguf saved;
  saved.notes = check_for_gguf(model.config);
  const text::GgufVocabulary vocabulary = text::gguf_vocabulary(tokenizer, model.config.shape.vocabulary);
  append(saved.notes, vocabulary.notes);
  GgufMetadata metadata = general_metadata(gguf_architecture(model.config.shape.family).name, "model",
                                           model_name(out, vocabulary, saved.notes), dtype);
  append(metadata, gguf_settings(model.config));
  append(metadata, tokenizer_metadata(model, tokenizer, vocabulary, saved.notes));
  TensorCollector collector(model, dtype);
  const std::vector<GgufTensor> tensors = collector.collect();
  append(saved.notes, collector.notes());
  saved.parameters = model.table.count();
  saved.bytes = write_gguf(out, metadata, tensors, progress);
  return saved;
}

SavedGguf save_adapter_gguf(const fs::path& out, const fs::path& adapter, const model::ModelConfig& config,
                            GgufDtype dtype, const ProgressCallback& progress) {
  check_absent(out);
  SavedGguf saved;
  saved.notes = check_for_gguf(config);
  LoraCollector collector(adapter, config, dtype);
  GgufMetadata metadata =
      general_metadata(gguf_architecture(config.shape.family).name, "adapter", out.stem().string(), dtype);
  metadata.emplace_back("adapter.type", "lora");
  metadata.emplace_back("adapter.lora.alpha", static_cast<float>(collector.alpha()));
  const std::vector<GgufTensor> tensors = collector.collect();
  for (const GgufTensor& tensor : tensors) saved.parameters += tensor.count();
  saved.bytes = write_gguf(out, metadata, tensors, progress);
  return saved;
}

}  // namespace dpo::checkpoint
