#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/quantity.h"
#include "base/stop.h"
#include "checkpoint/adapter.h"
#include "checkpoint/read_tensors.h"
#include "checkpoint/save.h"
#include "commands/command.h"
#include "commands/fetch.h"
#include "data/forest.h"
#include "engine/gguf.h"
#include "engine/loading.h"
#include "engine/merge.h"
#include "engine/run_commands.h"
#include "model/pass.h"
#include "model/store.h"
#include "train/reference.h"
#include "train/reference_cache.h"

namespace dpo::engine {
namespace {

namespace fs = std::filesystem;

// Provides a model's weights in float32, one block at a time.
class WideStore : public model::Store {
 public:
  using Widen = std::function<model::BlockWeights(std::size_t block)>;
  explicit WideStore(std::size_t blocks, Widen widen) : blocks_(blocks), widen_(std::move(widen)) {}

  std::size_t blocks() const override { return blocks_; }
  at::Device device(std::size_t) const override { return at::kCPU; }
  at::ScalarType dtype() const override { return at::kFloat; }
  const model::BlockWeights& weights(std::size_t block, std::optional<std::size_t>) override {
    const auto found = leased_.find(block);
    return found != leased_.end() ? found->second : leased_.emplace(block, widen_(block)).first->second;
  }
  void release(std::size_t block) override { leased_.erase(block); }
  void end_pass() override { leased_.clear(); }
  void end_update() override {}

 private:
  std::size_t blocks_;
  Widen widen_;
  std::map<std::size_t, model::BlockWeights> leased_;
};

// A model and its adapter, in float32.
struct Adapted {
  const checkpoint::LoadedModel& model;
  const model::Weights& adapter;

  model::BlockWeights wide(std::size_t block) const {
    const at::Tensor flat = model.weights.blocks[block].flat.to(at::kFloat, /*non_blocking=*/false,
                                                                /*copy=*/true);
    return model::block_views(flat, model.table.blocks[block], {});
  }
  model::BlockWeights apart(std::size_t block) const {
    return model::with_adapter(wide(block), adapter.blocks[block]);
  }
  model::BlockWeights merged(std::size_t block) const {
    model::Weights weights{{wide(block)}};
    model::merge_adapter(weights, {{adapter.blocks[block]}});
    return weights.blocks.front();
  }
};

// Random texts for comparing the two forms of a model.
struct Probe {
  static constexpr std::int64_t kResponses = 4;

  explicit Probe(const model::ModelShape& shape)
      : length(std::min<std::int64_t>(32, shape.context / 2)), prompt(text(shape)) {
    for (std::int64_t i = 0; i < kResponses; ++i) responses.push_back(text(shape));
  }

  std::vector<double> scores(const model::Model& model, WideStore store) const {
    const data::Example example{.prompt = prompt, .responses = {responses.begin(), responses.end()}};
    const data::Forest forest = data::make_forest(std::span(&example, 1));
    const model::Batch batch = model::make_batch(forest, model.config.shape, at::kCPU);
    return train::to_host(model::forward(model, store, batch, {}).log_probs);
  }

  std::vector<data::Token> text(const model::ModelShape& shape) {
    std::vector<data::Token> tokens;
    for (std::int64_t i = 0; i < length; ++i)
      tokens.push_back(static_cast<data::Token>(random() % static_cast<std::uint64_t>(shape.vocabulary)));
    return tokens;
  }

  std::mt19937_64 random{0};
  std::int64_t length;
  std::vector<data::Token> prompt;
  std::vector<std::vector<data::Token>> responses;
};

// Compares both forms in float32, because rounding to 16 bits would hide other differences.
void require_equal(const Adapted& adapted) {
  constexpr double kTolerance = 3;  // matmuls are computed in another order
  const model::Model network = model::make_model(adapted.model.config);
  const Probe probe(adapted.model.config.shape);
  const std::size_t blocks = adapted.model.table.blocks.size();
  const std::vector<double> apart =
      probe.scores(network, WideStore(blocks, [&](std::size_t i) { return adapted.apart(i); }));
  const std::vector<double> merged =
      probe.scores(network, WideStore(blocks, [&](std::size_t i) { return adapted.merged(i); }));
  for (std::size_t i = 0; i < apart.size(); ++i)
    if (!(std::abs(apart[i] - merged[i]) <=
          kTolerance * train::rounding_of(apart[i], probe.length, at::kFloat)))
      throw UserError(fmt::format(
          "a response of {} random tokens has log-probability {} under the model with its adapter, "
          "but {} under the merged model. Nothing was written; are the adapter's values finite?",
          probe.length, apart[i], merged[i]));
}

}  // namespace

MergedModel merged_model(const std::string& name, const fs::path& folder, const std::string& dtype) {
  const at::ScalarType stored = checkpoint::stored_dtype(name);
  const at::ScalarType read = stored == at::kDouble ? at::kFloat : stored;
  const at::ScalarType written = dtype.empty() ? read : scalar_type_named(dtype);
  checkpoint::LoadedModel model =
      checkpoint::load_model(name, read, at::kCPU, std::nullopt, shown_progress("reading"));
  const model::Weights adapter = checkpoint::load_adapter(folder, model.table, at::kFloat, at::kCPU);
  const Adapted adapted{model, adapter};
  require_equal(adapted);
  for (std::size_t i = 0; i < model.table.blocks.size(); ++i)
    model.weights.blocks[i] =
        model::block_views(adapted.merged(i).flat.to(written), model.table.blocks[i], {});
  const bool has_own = checkpoint::has_tokenizer(folder);
  if (has_own) checkpoint::use_tokenizer(model, folder);
  const fs::path tokenizer = has_own ? folder : model.folder;
  add_answer_ends(model, tokenizer);
  return {std::move(model), read, tokenizer};
}

checkpoint::LoadedModel merge(const std::string& name, const fs::path& folder, const fs::path& out,
                              const std::string& dtype) {
  checkpoint::LoadedModel model = merged_model(name, folder, dtype).model;
  checkpoint::save_model(out, model, kShardBytes, shown_progress("writing"));
  return model;
}

int run_merge(const commands::MergeArguments& arguments) {
  check_absent(arguments.out);
  check_gguf_options(arguments.out, arguments.dtype, arguments.modelfile);
  commands::fetch_model(arguments.model, hub::Need::weights);
  const fs::path folder = find_adapter(arguments.adapter, arguments.model);
  handle_stop_signals();
  if (commands::is_gguf(arguments.out)) {
    const MergedModel merged = merged_model(arguments.model, folder, "float32");
    const std::string dtype =
        arguments.dtype.empty() ? checkpoint::name_of_scalar(merged.stored) : arguments.dtype;
    print_weight_notes(merged.model);
    write_gguf(arguments.out, merged.model, merged.tokenizer, dtype, arguments.modelfile);
    return 0;
  }
  const checkpoint::LoadedModel merged = merge(arguments.model, folder, arguments.out, arguments.dtype);
  print_weight_notes(merged);
  fmt::print("{}: {}\n", arguments.out, summary_of(merged));
  return 0;
}

}  // namespace dpo::engine
