#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/quantity.h"
#include "base/stop.h"
#include "checkpoint/adapter.h"
#include "checkpoint/save.h"
#include "commands/fetch.h"
#include "data/forest.h"
#include "engine/loading.h"
#include "engine/run_commands.h"
#include "model/pass.h"
#include "train/reference.h"
#include "train/reference_cache.h"

namespace dpo::engine {
namespace {

// Random texts, by which the two forms of a model are compared.
struct Probe {
  static constexpr std::int64_t kResponses = 4;

  explicit Probe(const model::ModelShape& shape)
      : length(std::min<std::int64_t>(32, shape.context / 2)), prompt(text(shape)) {
    for (std::int64_t i = 0; i < kResponses; ++i) responses.push_back(text(shape));
  }

  std::vector<double> scores(const model::Model& model, const model::Weights& weights) const {
    const data::Example example{.prompt = prompt, .responses = {responses.begin(), responses.end()}};
    const data::Forest forest = data::make_forest(std::span(&example, 1));
    const model::Batch batch = model::make_batch(forest, model.config.shape, weights.device());
    return train::to_host(model::forward(model, weights, batch, {}).log_probs);
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

// Merged weights are rounded once more, and products are computed in another order.
constexpr double kTolerance = 3;

void require_equal(const std::vector<double>& apart, const std::vector<double>& merged, std::int64_t tokens,
                   at::ScalarType dtype) {
  for (std::size_t i = 0; i < apart.size(); ++i)
    if (!(std::abs(apart[i] - merged[i]) <= kTolerance * train::rounding_of(apart[i], tokens, dtype)))
      throw UserError(fmt::format(
          "a response of {} random tokens has log-probability {} under the model with its adapter, but {} "
          "under the merged model. Nothing was written; try --dtype float32",
          tokens, apart[i], merged[i]));
}

at::ScalarType dtype_to_merge(const commands::MergeArguments& arguments) {
  if (!arguments.dtype.empty()) return scalar_type_named(arguments.dtype);
  const at::ScalarType stored = checkpoint::stored_dtype(arguments.model);
  return stored == at::kDouble ? at::kFloat : stored;
}

}  // namespace

int run_merge(const commands::MergeArguments& arguments) {
  check_absent(arguments.out);
  commands::fetch_model(arguments.model, hub::Need::weights);
  const std::filesystem::path adapter = checkpoint::model_folder(arguments.adapter);
  const at::ScalarType dtype = dtype_to_merge(arguments);
  handle_stop_signals();
  checkpoint::LoadedModel model =
      checkpoint::load_model(arguments.model, dtype, at::kCPU, std::nullopt, shown_progress("reading"));
  const model::Model network = model::make_model(model.config);
  const Probe probe(model.config.shape);
  const std::vector<double> apart = probe.scores(
      network,
      model::with_adapter(model.weights, checkpoint::load_adapter(adapter, model.table, dtype, at::kCPU)));
  model::merge_adapter(model.weights, checkpoint::load_adapter(adapter, model.table, at::kFloat, at::kCPU));
  require_equal(apart, probe.scores(network, model.weights), probe.length, dtype);
  checkpoint::save_model(arguments.out, model, kShardBytes, shown_progress("writing"));
  fmt::print("{}: {}\n", arguments.out, summary_of(model));
  return 0;
}

}  // namespace dpo::engine
