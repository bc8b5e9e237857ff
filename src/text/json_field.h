// A value in a JSON file that knows its path, so that every error message names file and field.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace dpo::text {

class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string file, std::string path = "");

  // Return members of an object. `find` returns nullopt for a member that is absent or null.
  std::optional<JsonField> find(const std::string& name) const;
  JsonField at(const std::string& name) const;
  std::vector<std::pair<std::string, JsonField>> members() const;
  std::vector<JsonField> items() const;

  bool is_string() const;
  bool is_object() const;
  bool is_array() const;
  const std::string& text() const;
  bool flag() const;
  std::int64_t number() const;

  bool flag_or(const std::string& name, bool fallback) const;  // `fallback` if the member is absent

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }
  std::string where() const;  // "FILE: model.vocab"

  // Throws a UserError: "FILE: FIELD is VALUE; expected ...".
  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

// A parsed JSON file. Nesting deeper than that of any tokenizer is rejected before parsing.
class JsonFile {
 public:
  JsonFile(const std::string& text, const std::string& file);
  ~JsonFile();
  JsonFile(JsonFile&&) noexcept;
  JsonFile& operator=(JsonFile&&) noexcept;

  JsonField root() const;

 private:
  std::unique_ptr<const nlohmann::json> value_;
  std::string file_;
};

}  // namespace dpo::text
