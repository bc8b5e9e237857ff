#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json_problem.h"

namespace dpo {

// Parses an untrusted text. Returns a discarded value (neither object nor list) if it is not JSON or
// is_nested_deeply.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (is_nested_deeply(text)) return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

}  // namespace dpo
