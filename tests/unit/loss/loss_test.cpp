#include "loss/loss.h"

#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/nearest.h"
#include "config/losses.h"
#include "loss/dual.h"

namespace dpo::loss {
namespace {

// Three pairs: responses 0 and 1, 2 and 3, 4 and 5.
const std::vector<Score> kScores = {{-10, -12, 8},    {-15, -14, 9},    {-40, -39, 20},
                                    {-38, -39.5, 25}, {-25, -26.5, 16}, {-60, -50, 30}};
const std::vector<Comparison> kPairs = {{.responses = {0, 1}}, {.responses = {2, 3}}, {.responses = {4, 5}}};

// Three responses on their own, and two rankings.
const std::vector<Comparison> kSingles = {
    {.responses = {0}}, {.responses = {3}, .desirable = false}, {.responses = {4}}};
const std::vector<Comparison> kRankings = {{.responses = {3, 1, 5, 0}}, {.responses = {2, 4}}};

using config::Divergence;
using config::ExampleKind;
using config::facts_of;
using config::Loss;

const std::vector<Comparison>& comparisons_of(Loss loss) {
  switch (facts_of(loss).examples) {
    case ExampleKind::Pair: return kPairs;
    case ExampleKind::Ranking: return kRankings;
    case ExampleKind::Target:
    case ExampleKind::Unpaired: break;
  }
  return kSingles;
}

Options options(Loss loss) {
  Options o;
  o.name = loss;
  o.beta = 0.1;
  o.temperature = 0.05;
  return o;
}

void expect_losses(const Options& o, const std::vector<double>& expected) {
  const LossAndGradients result = evaluate(o, kScores, kPairs);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(result.losses[i], expected[i], 1e-9) << name_of(o.name) << " " << i;
}

TEST(Loss, GoldenVectors) {
  expect_losses(options(Loss::dpo), {0.554355244, 0.825939420, 0.275080583});
  expect_losses(options(Loss::hinge), {0.7, 1.25, 0});
  Options ipo = options(Loss::ipo);
  ipo.length_normalize = true;
  expect_losses(ipo, {21.519290123, 26.112100000, 20.911566840});
  Options exo = options(Loss::exo_pair);
  exo.label_smoothing = 1e-3;
  expect_losses(exo, {2.258199192, 3.198420440, 1.110356595});
  expect_losses(options(Loss::nca_pair), {1.319406634, 1.452073514, 1.163066415});
  Options robust = options(Loss::robust);
  robust.label_smoothing = 0.1;
  expect_losses(robust, {0.516855244, 0.857189420, 0.131330583});
  expect_losses(options(Loss::bco_pair), {1.242535529, 1.515353708, 0.934218735});
  expect_losses(options(Loss::sppo_hard), {25, 78.25, 37.25});
  expect_losses(options(Loss::apo_zero), {0.925186815, 1.062409033, 0.731511576});
  expect_losses(options(Loss::apo_down), {0.975391481, 1.037197313, 0.777918928});
  expect_losses(options(Loss::discopop), {0.740357168, 0.829005321, 0.316636769});
  expect_losses(options(Loss::sigmoid_norm), {0.675254618, 0.698662305, 0.672020997});
}

TEST(Loss, AotComparesSortedMargins) {
  // The sorted losses are 0.825939420, 0.554355244, 0.275080583. The policy's margins are 5, -2, 35.
  expect_losses(options(Loss::aot), {0.554355244, 0.825939420, 0.275080583});
  // Pairs are matched in the order of the policy's margins, independent of the reference's.
  std::vector<Score> scores = kScores;
  scores[0].reference = -100;
  const LossAndGradients result = evaluate(options(Loss::aot), scores, kPairs);
  // Reference margins: -86, 0.5, 23.5; the policy's, sorted: -2 (pair 1), 5 (pair 0), 35 (pair 2).
  EXPECT_NEAR(result.losses[1], -log_sigmoid(0.1 * (-2 + 86)), 1e-12);
  EXPECT_NEAR(result.losses[0], -log_sigmoid(0.1 * (5 - 0.5)), 1e-12);
  EXPECT_NEAR(result.losses[2], -log_sigmoid(0.1 * (35 - 23.5)), 1e-12);
}

TEST(Loss, DiscopopFarBelowZeroIsTheSigmoidLoss) {
  std::vector<Score> far = kScores;
  far[0].policy = -20000;  // exp(-z) overflows there
  const LossAndGradients result = evaluate(options(Loss::discopop), far, kPairs);
  EXPECT_DOUBLE_EQ(result.losses[0], 0.1 * (20000 - 12 - 1));
  EXPECT_DOUBLE_EQ(result.gradients[0], -0.1);
}

TEST(Loss, FormulasByHand) {
  // simpo: -log sigmoid(b (c/|yw| - r/|yl|) - gamma)
  Options simpo = options(Loss::simpo);
  simpo.gamma = 0.5;
  expect_losses(simpo, {-log_sigmoid(0.1 * (-10.0 / 8 + 15.0 / 9) - 0.5)});
  Options cpo = options(Loss::cpo);
  cpo.alpha = 2;  // with the chosen response's likelihood per token
  expect_losses(cpo, {-log_sigmoid(0.1 * 5) + 2 * 10.0 / 8});
  const double good = -10.0 / 8, bad = -15.0 / 9;
  const double odds = (good - bad) - (std::log(1 - std::exp(good)) - std::log(1 - std::exp(bad)));
  expect_losses(options(Loss::orpo), {-good - 0.1 * log_sigmoid(odds)});
  expect_losses(options(Loss::ipo), {(3 - 5) * (3 - 5.0)});  // on sums: D = 3, 1 / (2 b) = 5
  const std::vector<Comparison> single = {{.responses = {0}}};
  EXPECT_EQ(evaluate(options(Loss::sft), kScores, single).losses[0], 10);
}

TEST(Loss, StepZeroOfDpoIsLogTwo) {
  std::vector<Score> same = kScores;
  for (Score& score : same) score.reference = score.policy;
  for (const double loss : evaluate(options(Loss::dpo), same, kPairs).losses)
    EXPECT_DOUBLE_EQ(loss, std::log(2));
}

TEST(Loss, ReferenceFreeIgnoresTheReference) {
  Options o = options(Loss::dpo);
  o.reference_free = true;
  expect_losses(o, {-log_sigmoid(0.5), -log_sigmoid(-0.2), -log_sigmoid(3.5)});
}

TEST(Loss, MarginWeightAndDivergences) {
  std::vector<Comparison> pairs = kPairs;
  pairs[0].margin = 0.4;
  pairs[0].weight = 3;
  const LossAndGradients result = evaluate(options(Loss::dpo), kScores, pairs);
  EXPECT_NEAR(result.losses[0], -log_sigmoid(0.3 - 0.4), 1e-12);
  EXPECT_NEAR(result.gradients[0], -3 * 0.1 * sigmoid(0.1), 1e-12);
  Options forward = options(Loss::dpo);
  forward.divergence = Divergence::forward_kl;
  expect_losses(forward, {-log_sigmoid(0.1 * (-std::exp(-2) + std::exp(1)))});
  Options js = options(Loss::dpo);
  js.divergence = Divergence::js;
  expect_losses(js, {-log_sigmoid(0.1 * (log_sigmoid(2.0) - log_sigmoid(-1.0)))});
}

TEST(Loss, KtoWeighsDesirableAndUndesirable) {
  Options o = options(Loss::kto);
  o.kl = 1;
  o.desirable_weight = 2;
  const std::vector<Comparison> examples = {{.responses = {0}}, {.responses = {1}, .desirable = false}};
  const LossAndGradients result = evaluate(o, kScores, examples);
  EXPECT_NEAR(result.losses[0], 2 * (1 - sigmoid(0.1 * (2 - 1))), 1e-12);
  EXPECT_NEAR(result.losses[1], 1 - sigmoid(0.1 * (1 + 1)), 1e-12);
  o.kl = -3;  // a negative estimate counts as 0
  EXPECT_NEAR(evaluate(o, kScores, examples).losses[0], 2 * (1 - sigmoid(0.1 * 2)), 1e-12);
}

TEST(Loss, PlackettLuceOfTwoIsDpo) {
  const LossAndGradients list = evaluate(options(Loss::plackett_luce), kScores, kPairs);
  const LossAndGradients dpo = evaluate(options(Loss::dpo), kScores, kPairs);
  for (std::size_t i = 0; i < kPairs.size(); ++i) EXPECT_NEAR(list.losses[i], dpo.losses[i], 1e-12);
  for (std::size_t i = 0; i < kScores.size(); ++i) EXPECT_NEAR(list.gradients[i], dpo.gradients[i], 1e-12);
}

double total(const Options& o, const std::vector<Score>& scores, const std::vector<Comparison>& comparisons) {
  const LossAndGradients result = evaluate(o, scores, comparisons);
  double sum = 0;
  for (std::size_t i = 0; i < comparisons.size(); ++i) sum += comparisons[i].weight * result.losses[i];
  return sum;
}

// Compares every loss with central differences, at random scores and with every option that changes it.
TEST(Loss, GradientsAreExact) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> spread(-3, 3);
  for (const Loss loss : config::all_choices<Loss>())
    for (const Divergence divergence : config::all_choices<Divergence>())
      for (int round = 0; round < 10; ++round) {
        Options o = options(loss);
        o.beta = 0.3;
        o.label_smoothing = 0.1;
        o.divergence = divergence;
        o.alpha = round % 2 == 0 ? 0 : 0.5;
        o.gamma = 0.2;
        o.reward_shift = 0.1;
        o.kl = 0.5;
        o.temperature = 0.5;  // steeper mixes need smaller steps than float64 differences allow
        std::vector<Score> scores(6);
        for (Score& score : scores) score = {-8 + spread(random), -8 + spread(random), 4};
        std::vector<Comparison> comparisons = comparisons_of(loss);
        comparisons.back().weight = 2;
        const LossAndGradients result = evaluate(o, scores, comparisons);
        for (std::size_t i = 0; i < scores.size(); ++i) {
          constexpr double kStep = 1e-5;
          std::vector<Score> up = scores, down = scores;
          up[i].policy += kStep;
          down[i].policy -= kStep;
          const double slope = (total(o, up, comparisons) - total(o, down, comparisons)) / (2 * kStep);
          EXPECT_NEAR(result.gradients[i], slope, 1e-6 * std::max(1.0, std::abs(slope)))
              << name_of(loss) << " " << name_of(divergence);
        }
      }
}

// The gradients of SFT can be used before there are scores.
TEST(Loss, OfSftHasGradientsThatDoNotDependOnScores) {
  for (const double alpha : {0.0, 0.5})
    for (const Loss loss : config::all_choices<Loss>()) {
      Options o = options(loss);
      o.alpha = alpha;
      o.label_smoothing = 0.1;
      std::vector<Comparison> comparisons = comparisons_of(loss);
      comparisons.back().weight = 2;
      std::vector<Score> none = kScores, moved = kScores;
      for (Score& score : none) score.policy = score.reference = 0;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i].policy += static_cast<double>(i);
      const std::vector<double> expected = evaluate(o, none, comparisons).gradients;
      const bool is_constant = evaluate(o, kScores, comparisons).gradients == expected &&
                               evaluate(o, moved, comparisons).gradients == expected;
      EXPECT_EQ(facts_of(loss).has_constant_gradients, is_constant) << name_of(loss);
    }
}

// Returns the losses after a change of the options, the scores or the comparisons.
template <class Change>
std::vector<double> losses_after(Loss loss, Change change) {
  Options o = options(loss);
  o.label_smoothing = 0.1;
  std::vector<Score> scores = kScores;
  std::vector<Comparison> comparisons = comparisons_of(loss);
  change(o, scores, comparisons);
  return evaluate(o, scores, comparisons).losses;
}

TEST(Loss, HasTheFactsOfItsFormula) {
  for (const Loss loss : config::all_choices<Loss>()) {
    const config::LossFacts facts = facts_of(loss);
    const std::vector<double> usual = losses_after(loss, [](auto&...) {});
    EXPECT_EQ(losses_after(loss, [](auto&, auto& scores, auto&) { scores[0].reference += 1; }) != usual,
              facts.has_reference)
        << facts.name;
    EXPECT_EQ(losses_after(loss, [](auto&, auto&, auto& pairs) { pairs[0].margin = 0.1; }) != usual,
              facts.has_margins)
        << facts.name;
    EXPECT_EQ(losses_after(loss, [](auto& o, auto&, auto&) { o.kl = 0.5; }) != usual, facts.needs_kl)
        << facts.name;
    const auto far = [](auto&, auto& scores, auto&) { scores[0].reference = -100; };
    const auto alone = [&](auto& o, auto& scores, auto& examples) {
      far(o, scores, examples);
      examples.resize(1);
    };
    EXPECT_EQ(losses_after(loss, alone)[0] != losses_after(loss, far)[0], facts.compares_batch) << facts.name;
  }
}

TEST(Loss, UsesItsOwnKeys) {
  const std::map<std::string_view, void (*)(Options&)> changes = {
      {"label_smoothing", [](Options& o) { o.label_smoothing = 0.2; }},
      {"reference_free", [](Options& o) { o.reference_free = true; }},
      {"divergence", [](Options& o) { o.divergence = Divergence::js; }},
      {"length_normalize", [](Options& o) { o.length_normalize = true; }},
      {"gamma", [](Options& o) { o.gamma = 0.7; }},
      {"temperature", [](Options& o) { o.temperature = 0.7; }},
      {"desirable_weight", [](Options& o) { o.desirable_weight = 2; }},
      {"undesirable_weight", [](Options& o) { o.undesirable_weight = 2; }}};
  for (const Loss loss : config::all_choices<Loss>())
    for (const auto& [key, change] : changes)
      if (has_word(facts_of(loss).keys, key)) {
        const auto changed = losses_after(loss, [&](Options& o, auto&, auto&) { change(o); });
        EXPECT_NE(changed, losses_after(loss, [](auto&...) {})) << name_of(loss) << " " << key;
      }
}

TEST(Loss, IsFiniteFarOut) {
  for (const Loss loss : config::all_choices<Loss>()) {
    if (loss == Loss::discopop) continue;  // its exponential grows without bound by design
    for (const double far : {-1e4, 1e4}) {
      Options o = options(loss);
      o.label_smoothing = 0.1;
      const std::vector<Score> scores = {{-2e4 + far, -2e4, 10}, {-2e4 - far, -2e4, 10}};
      std::vector<Comparison> first = {{.responses = {0, 1}}};
      if (comparisons_of(loss)[0].responses.size() == 1) first[0].responses = {0};
      const LossAndGradients result = evaluate(o, scores, first);
      EXPECT_TRUE(std::isfinite(result.losses[0])) << name_of(loss);
      EXPECT_TRUE(std::isfinite(result.gradients[0])) << name_of(loss);
    }
  }
}

TEST(Loss, RefuseInvalidOptions) {
  EXPECT_THROW(evaluate(options(Loss::exo_pair), kScores, kPairs), UserError);
  Options half = options(Loss::robust);
  half.label_smoothing = 0.5;
  EXPECT_THROW(evaluate(half, kScores, kPairs), UserError);
}

TEST(Log1mexp, IsExactAtBothEnds) {
  EXPECT_NEAR(log1mexp(-1e-10), std::log(1e-10), 1e-9);
  EXPECT_NEAR(log1mexp(-50.0), -std::exp(-50.0), 1e-30);
  EXPECT_NEAR(log1mexp(-0.6931471805599453), std::log(0.5), 1e-12);
}

}  // namespace
}  // namespace dpo::loss
