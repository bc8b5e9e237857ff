#include "demo/results.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "report/accuracy.h"
#include "report/page.h"

namespace dpo::demo {
namespace {

constexpr std::array kRejections = {Judgement::rude, Judgement::unhelpful, Judgement::wrong_order,
                                    Judgement::garbled};

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// Returns the customer's words without the markers of a dialogue.
std::string request_of(const Request& request) {
  const std::string_view marker = "Human: ";
  const std::string& prompt = request.prompt;
  const std::size_t begin = prompt.find(marker) + marker.size();
  return prompt.substr(begin, prompt.find("\n\n", begin) - begin);
}

// Returns a reply on one line of a terminal. An untrained model generates anything, including control
// characters.
std::string shortened(const std::string& reply) {
  constexpr std::size_t kMost = 62;
  std::string line;
  for (const char c : reply) {
    const auto byte = static_cast<unsigned char>(c);
    if (!continues_character(c) && line.size() >= kMost) return line + "...";
    if (byte < 0x20 || byte == 0x7F)
      line += '.';
    else if (!(c == ' ' && line.empty()))
      line += c;
  }
  return line;
}

struct Row {
  std::string name;
  std::array<std::string, 3> values;
};

std::vector<Row> rows_of(const Results& results) {
  const auto shares = [&](std::string name, Judgement judgement) {
    Row row{std::move(name), {}};
    std::ranges::transform(results.stages, row.values.begin(),
                           [&](const Stage& stage) { return percent(stage.share(judgement)); });
    return row;
  };
  std::vector<Row> rows = {
      {"held-out reward accuracy",
       {"", "", report::accuracy_text(results.heldout_accuracy, NAN, results.heldout_pairs)}},
      shares("samples accepted by the rule", Judgement::accepted)};
  for (const Judgement judgement : kRejections)
    rows.push_back(shares(fmt::format("  rejected: {}", name_of(judgement)), judgement));
  return rows;
}

report::Cell cell_of(const JudgedReply& reply) {
  const bool good = reply.judgement == Judgement::accepted;
  return {reply.text, good ? report::Tone::good : report::Tone::bad, std::string(name_of(reply.judgement))};
}

report::Table table_of(const Results& results) {
  report::Table table{{""}, {}};
  for (const Stage& stage : results.stages) table.header.push_back(stage.title);
  for (const Row& row : rows_of(results))
    table.rows.push_back({{row.name}, {row.values[0]}, {row.values[1]}, {row.values[2]}});
  return table;
}

report::Table samples_of(const Results& results) {
  constexpr std::size_t kMost = 20;
  report::Table table{{"request"}, {}};
  for (const Stage& stage : results.stages) table.header.push_back(stage.title);
  for (std::size_t i = 0; i < std::min(kMost, results.requests.size()); ++i) {
    table.rows.push_back({{request_of(results.requests[i])}});
    for (const Stage& stage : results.stages) table.rows.back().push_back(cell_of(stage.replies[i]));
  }
  return table;
}

std::vector<report::Chart> charts_of(const report::MetricLog& sft, const report::MetricLog& dpo) {
  const auto points = [](const report::MetricLog& log, const std::string& metric) {
    return log.series(metric).means(report::Series::kMostGroups);
  };
  const auto both = [&](const report::MetricLog& log, const std::string& title, const std::string& train,
                        const std::string& held_out) {
    return report::Chart{
        title,
        "examples",
        {{"training", points(log, train)}, {"held out", points(log, held_out), report::Mark::dots}}};
  };
  return {both(sft, "SFT: loss", "loss/train", "loss/eval"),
          both(dpo, "DPO: loss", "loss/train", "loss/eval"),
          both(dpo, "DPO: reward accuracy", "rewards_train/accuracies", "rewards_eval/accuracies"),
          report::Chart{"DPO: rewards, held out",
                        "examples",
                        {{"chosen", points(dpo, "rewards_eval/chosen"), report::Mark::dots},
                         {"rejected", points(dpo, "rewards_eval/rejected"), report::Mark::dots}}}};
}

}  // namespace

double Stage::share(Judgement judgement) const {
  if (replies.empty()) return 0;
  const auto count = std::ranges::count(replies, judgement, &JudgedReply::judgement);
  return static_cast<double>(count) / static_cast<double>(replies.size());
}

std::string to_json(const Results& results) {
  nlohmann::ordered_json accepted;
  for (const Stage& stage : results.stages) accepted[stage.key] = stage.share(Judgement::accepted);
  return nlohmann::ordered_json{
      {"heldout_accuracy", results.heldout_accuracy}, {"accepted", accepted}, {"seconds", results.seconds}}
      .dump();
}

std::string to_text(const Results& results) {
  constexpr std::size_t kShown = 6;
  std::string text = fmt::format("{:<32}", "");
  for (const Stage& stage : results.stages) text += fmt::format("{:>14}", stage.title);
  text += "\n";
  for (const Row& row : rows_of(results))
    text += fmt::format("{:<32}{:>14}{:>14}{:>14}\n", row.name, row.values[0], row.values[1], row.values[2]);
  text += "\nsamples for the first held-out requests\n";
  for (std::size_t i = 0; i < std::min(kShown, results.requests.size()); ++i) {
    text += fmt::format("  {}\n", request_of(results.requests[i]));
    for (const Stage& stage : results.stages)
      text += fmt::format("    {:<12}{:<13}{}\n", stage.title, name_of(stage.replies[i].judgement),
                          shortened(stage.replies[i].text));
  }
  return text;
}

std::string to_html(const Results& results, const report::MetricLog& sft, const report::MetricLog& dpo) {
  report::Page page("dpo: demonstration");
  page.add_text(
      "A shop's customers ask for things. The preferred reply is courteous, addresses the customer by name "
      "and gets the order right, which a rule checks. A small model learns first from conversations of mixed "
      "quality (SFT), then from pairs of a good and a bad reply (DPO). All data is generated; the requests "
      "below were held out of training.");
  page.add_heading("What training changed");
  page.add_table(table_of(results));
  page.add_text(
      fmt::format("{} held-out requests, one sample each at temperature 1. Reward accuracy is the share of "
                  "held-out pairs whose chosen reply has the higher reward. The demonstration took {:.0f} "
                  "seconds.",
                  results.requests.size(), results.seconds));
  page.add_heading("Training curves");
  page.add_charts(charts_of(sft, dpo));
  page.add_heading("Samples side by side");
  page.add_table(samples_of(results));
  page.add_heading("Commands to repeat it");
  page.add_code(results.commands);
  return page.to_html();
}

}  // namespace dpo::demo
