// Shared by chat.cpp and chat_length.cpp.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "data/chat.h"

namespace dpo::data {

struct ChatTokenizer::Chat {
  text::jinja::Values messages;  // the prompt's messages
  text::jinja::Value tools;
  text::jinja::Value kwargs;
};

// The rendered and encoded conversation of each response, with its prompt.
struct ChatTokenizer::Encoded {
  std::vector<text::RenderedChat> wholes;
  std::vector<std::vector<Token>> tokens;  // tokens of the prompt alone, then of each whole
  std::size_t prompt = 0;                  // number of tokens at the start that all have in common
};

inline std::string_view role_of(const text::jinja::Value& message) {
  const text::jinja::Value* const role = message.find("role");
  return role && role->is_string() ? std::string_view(role->string()) : std::string_view();
}

// Returns the indices of the messages with this role, from `begin` on.
inline std::vector<std::size_t> positions_of(std::string_view role, const text::jinja::Values& messages,
                                             std::size_t begin = 0) {
  std::vector<std::size_t> positions;
  for (std::size_t i = begin; i < messages.size(); ++i)
    if (role_of(messages[i]) == role) positions.push_back(i);
  return positions;
}

}  // namespace dpo::data
