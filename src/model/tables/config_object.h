#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "model/tables/shape.h"

namespace dpo::model {

// A config.json of one of the families, with transformers' defaults where it says nothing. Of a model for
// images and text (Gemma 3) it is the text part.
nlohmann::json parse_config_object(std::string_view config_json, const std::string& origin);

// The config.json of the text part alone, as transformers writes it; of any other model the same text.
std::string text_part_of(const std::string& config_json);

Family family_of(const nlohmann::json& object, const std::string& origin);

}  // namespace dpo::model
