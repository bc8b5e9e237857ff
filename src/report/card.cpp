#include "report/card.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/quantity.h"

namespace dpo::report {
namespace {

// A JSON string is a YAML string too.
std::string yaml(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Text in Markdown as it is, also in a table: a code span.
std::string code(const std::string& text) {
  std::string span = "`";
  for (const char c : text) {
    if (c == '|')
      span += "\\|";
    else
      span += c == '`' ? '\'' : static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return span + "`";
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string metadata(const CardFacts& facts) {
  std::string text = "---\nlibrary_name: transformers\npipeline_tag: text-generation\n";
  const CardRun* const run = facts.run ? &*facts.run : nullptr;
  if (run && !run->base_model.empty()) text += "base_model: " + yaml(run->base_model) + "\n";
  if (run && !run->datasets.empty()) {
    text += "datasets:\n";
    for (const std::string& name : run->datasets) text += "- " + yaml(name) + "\n";
  }
  if (run) text += "tags:\n- " + yaml(run->loss) + "\n";
  return text + "---\n";
}

std::string link_or_code(const std::string& shown, const std::string& address, bool on_the_hub) {
  return on_the_hub ? fmt::format("[{}](https://huggingface.co/{})", shown, address) : code(shown);
}

std::string method_of(const std::string& loss) {
  if (loss == "sft") return "supervised fine-tuning (SFT)";
  if (loss == "dpo") return "direct preference optimization (DPO)";
  return fmt::format("preference optimization with the loss {}", code(loss));
}

std::string change(const char* what, double first, double last, int digits) {
  if (first == last) return fmt::format("{} {:.{}f}", what, last, digits);
  return fmt::format("{} {:.{}f} → {:.{}f}", what, first, digits, last, digits);
}

// "On 256 held-out examples: loss 0.6931 → 0.3169, reward accuracy 0.000 → 1.000."
std::string result_of(const CardRun& run) {
  if (run.evaluations.empty()) return "It was not evaluated during training.";
  const Evaluation &first = run.evaluations.front(), &last = run.evaluations.back();
  const auto count = [](double examples) { return with_commas(static_cast<std::int64_t>(examples)); };
  std::string text =
      fmt::format("On {}: {}",
                  run.eval_examples > 0 ? plural(run.eval_examples, "held-out example") : "held-out examples",
                  change("loss", first.loss, last.loss, 4));
  if (first.accuracy && last.accuracy)
    text += ", " + change("reward accuracy", *first.accuracy, *last.accuracy, 3);
  text +=
      run.evaluations.size() == 1
          ? fmt::format(", evaluated once, after {} examples", count(last.examples))
          : fmt::format(", evaluated after {} and {} examples", count(first.examples), count(last.examples));
  if (last.examples < static_cast<double>(run.examples))
    text += fmt::format("; this model was trained on {} more and not evaluated after that",
                        plural(run.examples - static_cast<std::int64_t>(last.examples), "example"));
  return text + ".";
}

std::string summary_of(const CardRun& run) {
  std::string text = link_or_code(run.base, run.base_model, !run.base_model.empty());
  if (!run.weights.empty()) text += fmt::format(", from the weights {}", code(run.weights));
  text += fmt::format(", trained by {} on ", method_of(run.loss));
  std::vector<std::string> data;
  for (const std::string& name : run.data) data.push_back(code(name));
  return text + fmt::format("{}: {}, {}. {}\n", joined(data), plural(run.examples, "example"),
                            plural(run.updates, "update"), result_of(run));
}

std::string usage_of(const CardFacts& facts) {
  const std::string name =
      yaml(facts.repository) + (facts.revision == "main" ? "" : ", revision=" + yaml(facts.revision));
  return fmt::format(
      "## Use\n\n```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
      "tokenizer = AutoTokenizer.from_pretrained({0})\nmodel = "
      "AutoModelForCausalLM.from_pretrained({0})\n```\n{1}",
      name,
      facts.has_chat_template
          ? "\nThe tokenizer has the chat template of the training: use `tokenizer.apply_chat_template`.\n"
          : "");
}

// At most a dozen, evenly chosen, with the first and the last.
std::vector<Evaluation> some_of(const std::vector<Evaluation>& all) {
  constexpr std::size_t kMost = 12;
  if (all.size() <= kMost) return all;
  std::vector<Evaluation> some;
  for (std::size_t i = 0; i < kMost; ++i) some.push_back(all[i * (all.size() - 1) / (kMost - 1)]);
  return some;
}

std::string evaluation_table(const CardRun& run) {
  if (run.evaluations.empty()) return "";
  const bool preferences =
      std::ranges::any_of(run.evaluations, [](const Evaluation& e) { return e.accuracy.has_value(); });
  std::string text = "## Evaluation\n\n| examples trained on | loss |";
  text += preferences ? " reward accuracy | reward margin |\n|---|---|---|---|\n" : "\n|---|---|\n";
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.3f}", *value) : std::string();
  };
  for (const Evaluation& e : some_of(run.evaluations)) {
    text += fmt::format("| {:.0f} | {:.4f} |", e.examples, e.loss);
    text += preferences ? fmt::format(" {} | {} |\n", number(e.accuracy), number(e.margin)) : "\n";
  }
  const Evaluation& first = run.evaluations.front();
  if (preferences)
    text += "\nReward accuracy is the share of pairs whose chosen response has the higher implicit reward.";
  if (first.examples == 0 && first.accuracy == 0 && first.margin == 0)
    text += " Before the first update policy and reference are the same model, so all rewards are 0.";
  return text + (preferences ? "\n\n" : "\n");
}

std::string training_of(const CardRun& run) {
  std::string text = "## Training\n\n| setting | value |\n|---|---|\n";
  for (const auto& [name, value] : run.settings) text += fmt::format("| {} | {} |\n", name, code(value));
  text += "\n## Reproduce\n\n```sh\n" + run.command + "\n```\n\n";
  return text + "Local files and folders that the command names are not part of this repository.\n\n";
}

}  // namespace

std::string model_card(const CardFacts& facts) {
  std::string text = metadata(facts);
  const std::string name = facts.repository.substr(facts.repository.find('/') + 1);
  text += fmt::format("\n# {}\n\n", name);
  text += facts.run ? summary_of(*facts.run) : "Nothing is known here about how this model was trained.\n";
  text += "\n" + usage_of(facts) + "\n";
  if (facts.run) text += evaluation_table(*facts.run) + training_of(*facts.run);
  text += "## Limits\n\n";
  if (facts.run)
    text += fmt::format(
        "The figures above are all that the run measured{}. The model was not tested for safety, "
        "truthfulness "
        "or other tasks. License and limits of the model that it was trained from, and of the data, apply.\n",
        facts.run->evaluations.empty() ? "" : ", on held-out examples of the same data");
  else
    text += "No evaluation is recorded with this model.\n";
  return text + fmt::format(
                    "\n{}, which replaces this file the next time; delete this line to keep your own version "
                    "-->\n",
                    kCardMark);
}

}  // namespace dpo::report
