#include "text/json_field.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_problem.h"

namespace dpo::text {
namespace {

// Formats a value for messages as one short printable line.
std::string summary(const nlohmann::json& value) {
  if (value.is_object() && value.contains("type"))
    return fmt::format("an object of type {}", summary(value["type"]));
  if (value.is_object()) return fmt::format("an object with {} members", value.size());
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

}  // namespace

JsonField::JsonField(const nlohmann::json& value, std::string file, std::string path)
    : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

std::string JsonField::where() const { return path_.empty() ? file_ : fmt::format("{}: {}", file_, path_); }

void JsonField::refuse(const std::string& expected) const {
  throw UserError(fmt::format("{} is {}; expected {}",
                              path_.empty() ? fmt::format("{}: the file", file_) : where(), summary(*value_),
                              expected));
}

std::optional<JsonField> JsonField::find(const std::string& name) const {
  if (!value_->is_object()) refuse("an object");
  const auto member = value_->find(name);
  if (member == value_->end() || member->is_null()) return std::nullopt;
  return JsonField(*member, file_, path_.empty() ? name : fmt::format("{}.{}", path_, name));
}

JsonField JsonField::at(const std::string& name) const {
  const auto member = find(name);
  if (!member)
    throw UserError(fmt::format("{}: {}{}{} is missing", file_, path_, path_.empty() ? "" : ".", name));
  return *member;
}

std::vector<std::pair<std::string, JsonField>> JsonField::members() const {
  if (!value_->is_object()) refuse("an object");
  std::vector<std::pair<std::string, JsonField>> members;
  for (const auto& [name, value] : value_->items())
    members.emplace_back(name, JsonField(value, file_, fmt::format("{}[{}]", path_, summary(name))));
  return members;
}

std::vector<JsonField> JsonField::items() const {
  if (!value_->is_array()) refuse("an array");
  std::vector<JsonField> items;
  for (std::size_t i = 0; i < value_->size(); ++i)
    items.emplace_back((*value_)[i], file_, fmt::format("{}[{}]", path_, i));
  return items;
}

bool JsonField::is_string() const { return value_->is_string(); }
bool JsonField::is_object() const { return value_->is_object(); }
bool JsonField::is_array() const { return value_->is_array(); }

const std::string& JsonField::text() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonField::flag() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

std::int64_t JsonField::number() const {
  if (!value_->is_number_integer() ||
      (value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX))
    refuse("a whole number");
  return value_->get<std::int64_t>();
}

bool JsonField::flag_or(const std::string& name, bool fallback) const {
  const auto member = find(name);
  return member ? member->flag() : fallback;
}

JsonFile::JsonFile(const std::string& text, const std::string& file) : file_(file) {
  if (is_nested_deeply(text))
    throw UserError(
        fmt::format("{}: nested deeper than {} levels; not a tokenizer file", file, kDeepestJson));
  try {
    value_ = std::make_unique<const nlohmann::json>(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception&) {
    throw UserError(fmt::format("{}: {}", file, why_not_json(text)));
  }
}

JsonFile::~JsonFile() = default;
JsonFile::JsonFile(JsonFile&&) noexcept = default;
JsonFile& JsonFile::operator=(JsonFile&&) noexcept = default;

JsonField JsonFile::root() const { return JsonField(*value_, file_); }

}  // namespace dpo::text
