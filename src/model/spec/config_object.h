#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "model/spec/shape.h"

namespace dpo::model {

// Parses a config.json of one of the families, and adds transformers' defaults for missing keys. For a model
// for images and text (Gemma 3) it returns the text part.
nlohmann::json parse_config_object(std::string_view config_json, const std::string& origin);

// Returns the config.json of the text part alone, as transformers writes it. For any other model it returns
// the same text.
std::string text_part_of(const std::string& config_json);

Family family_of(const nlohmann::json& object, const std::string& origin);

}  // namespace dpo::model
