// One input is a file of lines: prompts or responses for `dpo sample` and `dpo score`, or the metrics of a
// run. Accepted prompts and responses are UTF-8 where they come from JSON.
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "data/prompt_lines.h"
#include "memory_file.h"
#include "report/metric_log.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::lines {
namespace {

using namespace std::string_literals;

bool try_prompts(std::string_view input) {
  const MemoryFile file(input);
  std::vector<std::string> prompts;
  return accepts([&] { prompts = dpo::data::read_prompts(file.path()); }) && !prompts.empty();
}

bool try_responses(std::string_view input) {
  const MemoryFile file(input);
  std::vector<dpo::data::PromptLine> lines;
  if (!accepts([&] { lines = dpo::data::read_responses(file.path()); })) return false;
  for (const auto& [text, origin] : lines) {
    if (!dpo::is_valid_utf8(text.prompt)) fail("a prompt that is not UTF-8", text.prompt);
    if (text.responses.empty()) fail("a prompt without responses", text.prompt);
    for (const std::string& response : text.responses)
      if (!dpo::is_valid_utf8(response)) fail("a response that is not UTF-8", response);
  }
  return !lines.empty();
}

bool try_conversations(std::string_view input) {
  const MemoryFile file(input);
  std::vector<dpo::data::PromptLine> lines;
  if (!accepts([&] { lines = dpo::data::read_conversations(file.path()); })) return false;
  for (const auto& [text, origin] : lines)
    if (!nlohmann::json::accept(text.prompt)) fail("a conversation that is not JSON", text.prompt);
  return !lines.empty();
}

bool try_metrics(std::string_view input) {
  const MemoryFile file(input);
  const dpo::report::MetricLog log(file.path());
  return !log.series("loss/train").empty();
}

const std::string kSeeds[] = {
    R"({"prompt": "q", "responses": ["a", "b"]})"
    "\n",
    R"({"prompt": "é\u00e8", "chosen": "a", "rejected": "b", "other": [1, {"a": null}]})"
    "\n\n",
    R"({"prompt": "q"})"
    "\n",
    R"({"messages": [{"role": "user", "content": "q"}, {"from": "gpt", "value": "a"}], "tools": "[]"})"
    "\n",
    R"({"prompt": [{"role": "user", "content": "q"}], "completion": "a", "system": "s"})"
    "\n",
    "a prompt without JSON\nanother one\r\n",
};
const std::string kMetricSeeds[] = {
    R"({"loss/train": 0.69, "counters/examples": 64, "rewards_train/chosen": -1e-3})"
    "\n",
    R"({"counters/examples": 128, "loss/train": 0.5})"
    "\n",
    R"({"loss/eval": null, "counters/examples": 64})"
    "\n",
};
const Tokens kTokens = json_tokens({"\r\n", "prompt", "chosen", "rejected", "responses", "messages", "scores",
                                    "\"responses\": [],", "\x1f\x8b", "\x28\xb5\x2f\xfd",
                                    "18446744073709551616", "\"counters/examples\": ", "\"loss/train\": "});

template <std::size_t N>
std::string make(Mutator& mutator, const std::string (&seeds)[N]) {
  std::string text;
  for (std::size_t n = 1 + mutator.below(3); n > 0; --n) text += mutator.pick(seeds);
  mutator.mutate(text, kTokens, 4);
  return text;
}

std::string make_lines(Mutator& mutator) { return make(mutator, kSeeds); }
std::string make_metrics(Mutator& mutator) { return make(mutator, kMetricSeeds); }

const Registered kPrompts({"prompt_lines", make_lines, try_prompts});
const Registered kResponses({"response_lines", make_lines, try_responses});
const Registered kConversations({"conversation_lines", make_lines, try_conversations});
const Registered kMetrics({"metric_log", make_metrics, try_metrics});

}  // namespace
}  // namespace fuzz::lines
