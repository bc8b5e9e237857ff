#include "text/generation_config.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/parse_json.h"

namespace dpo::text {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEos = "eos_token_id";
constexpr const char* kBos = "bos_token_id";
constexpr const char* kPad = "pad_token_id";

// Returns the object in a text, or an empty one if there is none.
ordered_json object_in(const std::string& text) {
  ordered_json json = parse_json<ordered_json>(text);
  return json.is_object() ? json : ordered_json::object();
}

std::optional<Token> id_in(const ordered_json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto id = value.get<std::uint64_t>();
  if (id > static_cast<std::uint64_t>(std::numeric_limits<Token>::max())) return std::nullopt;
  return static_cast<Token>(id);
}

std::vector<Token> ids_in(const ordered_json& object) {
  std::vector<Token> ids;
  const auto found = object.find(kEos);
  if (found == object.end()) return ids;
  for (const auto& value : found->is_array() ? *found : ordered_json::array({*found}))
    if (const auto id = id_in(value)) ids.push_back(*id);
  return ids;
}

std::optional<Token> id_in(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? std::nullopt : id_in(*found);
}

}  // namespace

std::vector<Token> eos_ids(const std::string& json) { return ids_in(object_in(json)); }

std::string with_ends(const std::string& file, const std::string& config, const AnswerEnds& ends) {
  const ordered_json before = object_in(file), model = object_in(config);
  ordered_json after = before;
  std::vector<Token> ids = ids_in(before);
  if (ids.empty()) ids = ids_in(model);
  for (const Token end : ends.tokens)
    if (std::ranges::find(ids, end) == ids.end()) ids.push_back(end);
  if (ids != ids_in(before)) after[kEos] = ids;
  if (const auto bos = id_in(model, kBos); bos && before.empty()) after[kBos] = *bos;
  const auto pad = id_in(model, kPad) ? id_in(model, kPad) : ends.pad;
  if (pad && !id_in(before, kPad)) after[kPad] = *pad;
  return after == before ? file : after.dump(2) + "\n";
}

}  // namespace dpo::text
