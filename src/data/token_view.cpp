#include "data/token_view.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dpo::data {

std::string escaped(const std::string& text) {
  using Json = nlohmann::json;
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

std::string token_view(const Example& example, const text::Tokenizer& tokenizer) {
  constexpr std::size_t kPromptTokens = 8, kFirst = 24, kLast = 4;
  const auto text = [&](Token token) { return escaped(tokenizer.decode(std::span(&token, 1))); };
  const auto is_scored = [&](std::size_t i) {
    if (example.unscored.empty()) return true;
    return std::ranges::none_of(example.unscored[0],
                                [&](const TokenRange& range) { return range.begin <= i && i < range.end; });
  };
  const std::size_t shown = std::min(example.prompt.size(), kPromptTokens);
  std::string view = shown < example.prompt.size() ? "... " : "";
  for (const Token token : example.prompt.last(shown)) view += text(token) + " ";
  const std::span<const Token> response = example.responses[0];
  for (std::size_t i = 0; i < response.size(); ++i) {
    if (i == kFirst && response.size() > kFirst + kLast) {
      view += fmt::format("... {} more ... ", response.size() - kFirst - kLast);
      i = response.size() - kLast;
    }
    view += is_scored(i) ? "[" + text(response[i]) + "] " : text(response[i]) + " ";
  }
  view.pop_back();
  return view;
}

}  // namespace dpo::data
