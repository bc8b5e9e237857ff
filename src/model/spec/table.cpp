#include "model/spec/table.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "model/spec/families.h"

namespace dpo::model {
namespace {

std::int64_t sum_over(const std::vector<TensorInfo>& tensors,
                      const std::function<std::int64_t(const TensorInfo&)>& value) {
  std::int64_t sum = 0;
  for (const TensorInfo& tensor : tensors) sum += value(tensor);
  return sum;
}

// Returns the parameters of a tensor that a token uses, on average.
std::int64_t active_count_of(const TensorInfo& tensor) {
  return static_cast<std::int64_t>(tensor.token_share * static_cast<double>(tensor.count()));
}

FamilyTable family_table(const ModelShape& shape) {
  switch (shape.layer_kind()) {
    case LayerKind::gpt2: return gpt2_table(shape);
    case LayerKind::gpt_neox: return gpt_neox_table(shape);
    case LayerKind::gptj: return gptj_table(shape);
    case LayerKind::gemma: return gemma_table(shape);
    case LayerKind::olmo2: return olmo2_table(shape);
    case LayerKind::cohere: return cohere_table(shape);
    case LayerKind::mixture: return mixture_table(shape);
    case LayerKind::llama: break;
  }
  return llama_table(shape);
}

}  // namespace

std::int64_t TensorInfo::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t Block::count() const {
  return sum_over(tensors, [](const TensorInfo& t) { return t.count(); });
}

std::int64_t Block::matmul_count() const {
  return sum_over(tensors, [](const TensorInfo& t) { return t.is_linear ? active_count_of(t) : 0; });
}

std::int64_t Block::count_on_rank(std::int64_t degree) const {
  return sum_over(tensors, [degree](const TensorInfo& t) {
    return t.split ? (t.count() + degree - 1) / degree : t.count();
  });
}

std::int64_t TensorTable::count() const {
  std::int64_t sum = 0;
  for (const Block& block : blocks) sum += block.count();
  return sum;
}

std::int64_t TensorTable::active_count() const {
  std::int64_t sum = 0;
  for (const Block& block : blocks) sum += sum_over(block.tensors, active_count_of);
  return sum;
}

std::size_t TensorTable::first(BlockKind kind) const {
  return static_cast<std::size_t>(std::ranges::find(blocks, kind, &Block::kind) - blocks.begin());
}

bool TensorTable::is_tied() const {
  const std::vector<TensorInfo>& of_head = blocks[first(BlockKind::head)].tensors;
  return std::ranges::find(of_head, head_name, &TensorInfo::name) == of_head.end();
}

bool is_quantizable(const Block& block, const TensorInfo& tensor) {
  return block.kind == BlockKind::layer && tensor.is_linear && tensor.split.has_value();
}

TensorTable tensor_table(const ModelShape& shape) {
  TensorTable table;
  const FamilyTable family = family_table(shape);
  table.blocks.push_back({BlockKind::embedding, "", family.embedding});
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    Block layer{BlockKind::layer, family.layer_prefix + std::to_string(i) + ".", family.layer,
                static_cast<std::size_t>(i)};
    for (TensorInfo& tensor : layer.tensors) tensor.name = layer.prefix + tensor.name;
    table.blocks.push_back(std::move(layer));
  }
  table.blocks.push_back({BlockKind::head, "", family.head});
  table.head_matmul_count = shape.vocabulary * shape.hidden;
  table.embedding_name = family.embedding.front().name;
  table.head_name = family.head_name;
  table.base_prefix = family.base_prefix;
  table.old_names = family.old_names;
  table.old_prefixes = family.old_prefixes;
  table.buffers = family.buffers;
  table.other_parts = family.other_parts;
  return table;
}

}  // namespace dpo::model
