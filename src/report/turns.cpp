#include "report/turns.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/quantity.h"
#include "base/utf8.h"
#include "report/html.h"

namespace dpo::report {

// Text that precedes a turn. If `role` is empty, the role's name follows the text and ends with `role_end`.
struct TurnMarker {
  std::string_view text, role, role_end;
};

struct TurnStyle {
  std::span<const TurnMarker> markers;
  std::span<const std::string_view> ends;  // texts that may follow a turn
};

namespace {

constexpr std::array kChatMl = {TurnMarker{"<|im_start|>", "", "\n"}};
constexpr std::array<std::string_view, 2> kChatMlEnds = {"<|im_end|>", "<|endoftext|>"};
constexpr std::array kLlama3 = {TurnMarker{"<|start_header_id|>", "", "<|end_header_id|>"}};
constexpr std::array<std::string_view, 3> kLlama3Ends = {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"};
constexpr std::array kGemma = {TurnMarker{"<start_of_turn>", "", "\n"}};
constexpr std::array<std::string_view, 2> kGemmaEnds = {"<end_of_turn>", "<eos>"};
constexpr std::array kZephyr = {  // also for Phi-3 and GLM-4
    TurnMarker{"<|system|>", "system", ""}, TurnMarker{"<|user|>", "user", ""},
    TurnMarker{"<|assistant|>", "assistant", ""}, TurnMarker{"<|tool|>", "tool", ""},
    TurnMarker{"<|observation|>", "tool", ""}};
constexpr std::array<std::string_view, 3> kZephyrEnds = {"</s>", "<|end|>", "<|endoftext|>"};
constexpr std::array kMistral = {TurnMarker{"[SYSTEM_PROMPT]", "system", ""},
                                 TurnMarker{"[INST]", "user", ""}, TurnMarker{"[/INST]", "assistant", ""}};
constexpr std::array<std::string_view, 2> kMistralEnds = {"</s>", "[/SYSTEM_PROMPT]"};
constexpr std::array kDeepSeek = {TurnMarker{"<｜User｜>", "user", ""},
                                  TurnMarker{"<｜Assistant｜>", "assistant", ""}};
constexpr std::array<std::string_view, 1> kDeepSeekEnds = {"<｜end▁of▁sentence｜>"};
constexpr std::array kStyles = {TurnStyle{kChatMl, kChatMlEnds},   TurnStyle{kLlama3, kLlama3Ends},
                                TurnStyle{kGemma, kGemmaEnds},     TurnStyle{kZephyr, kZephyrEnds},
                                TurnStyle{kMistral, kMistralEnds}, TurnStyle{kDeepSeek, kDeepSeekEnds}};

// Texts that may precede the first turn.
constexpr std::array<std::string_view, 6> kBegins = {
    "<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>", "[gMASK]<sop>", "<｜begin▁of▁sentence｜>"};

constexpr std::size_t kLongestRole = 32;

// A marker in a text, with the role that it names.
struct Found {
  std::size_t begin, end;
  std::string_view role;
};

bool is_role(std::string_view role) {
  return !role.empty() && role.size() <= kLongestRole && std::ranges::all_of(role, [](char c) {
    return is_ascii_letter(c) || is_ascii_digit(c) || c == '_' || c == '-';
  });
}

// Returns all markers in a text, in order.
std::vector<Found> markers_in(std::string_view text, const TurnStyle& style) {
  std::vector<Found> found;
  for (const TurnMarker& marker : style.markers)
    for (std::size_t at = 0; (at = text.find(marker.text, at)) != text.npos; at = at + marker.text.size()) {
      const std::string_view rest = text.substr(at + marker.text.size());
      const std::size_t size =
          marker.role.empty() ? rest.substr(0, kLongestRole + marker.role_end.size()).find(marker.role_end)
                              : 0;
      const std::string_view role = marker.role.empty() ? rest.substr(0, size) : marker.role;
      if (size != rest.npos && is_role(role))
        found.push_back({at, at + marker.text.size() + size + marker.role_end.size(), role});
    }
  std::ranges::sort(found, {}, &Found::begin);
  return found;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \n\r\t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string_view without_ends(std::string_view text, const TurnStyle& style) {
  text = trimmed(text);
  for (bool changed = true; std::exchange(changed, false);)
    for (const std::string_view end : style.ends)
      if (text.ends_with(end)) text = trimmed(text.substr(0, text.size() - end.size())), changed = true;
  return text;
}

std::string_view without_begin(std::string_view text) {
  const auto begin =
      std::ranges::find_if(kBegins, [&](std::string_view each) { return text.starts_with(each); });
  return begin == kBegins.end() ? text : trimmed(text.substr(begin->size()));
}

}  // namespace

const TurnStyle* turn_style_of(std::string_view prompt) {
  const auto style =
      std::ranges::find_if(kStyles, [&](const TurnStyle& each) { return !markers_in(prompt, each).empty(); });
  return style == kStyles.end() ? nullptr : &*style;
}

std::vector<Turn> turns_of(std::string_view text, const TurnStyle* style) {
  if (!style) return {{"", std::string(text)}};
  const std::vector<Found> markers = markers_in(text, *style);
  const std::string_view before =
      without_ends(text.substr(0, markers.empty() ? text.npos : markers[0].begin), *style);
  std::vector<Turn> turns = {{"", std::string(markers.empty() ? before : without_begin(before))}};
  for (std::size_t i = 0; i < markers.size(); ++i) {
    const std::size_t end = i + 1 < markers.size() ? markers[i + 1].begin : text.size();
    const std::string_view said = text.substr(markers[i].end, end - markers[i].end);
    turns.push_back({std::string(markers[i].role), std::string(without_ends(said, *style))});
  }
  if (turns.size() > 1 && turns.front().text.empty()) turns.erase(turns.begin());
  if (turns.size() > 1 && turns.back().text.empty()) turns.pop_back();  // the answer follows it
  return turns;
}

// Each turn costs one more character, because there may be very many empty turns.
std::vector<Turn> beginning_of(const std::vector<Turn>& turns, std::size_t most) {
  std::vector<Turn> kept;
  for (const Turn& turn : turns) {
    if (most == 0) break;
    kept.push_back({turn.role, beginning_of(turn.text, most)});
    most -= std::min(most, 1 + count_characters(replace_invalid_utf8(turn.text)));
  }
  if (const std::int64_t left = std::ssize(turns) - std::ssize(kept); left > 0)
    kept.push_back({"", fmt::format("({} more)", plural(left, "turn"))});
  return kept;
}

std::vector<Turn> end_of(const std::vector<Turn>& turns, std::size_t most) {
  std::vector<Turn> kept;
  for (std::size_t i = turns.size(); i > 0 && most > 0; --i) {
    const Turn& turn = turns[i - 1];
    kept.push_back({turn.role, end_of(turn.text, most)});
    most -= std::min(most, 1 + count_characters(replace_invalid_utf8(turn.text)));
  }
  if (const std::int64_t left = std::ssize(turns) - std::ssize(kept); left > 0)
    kept.push_back({"", fmt::format("({} before)", plural(left, "turn"))});
  std::ranges::reverse(kept);
  return kept;
}

}  // namespace dpo::report
