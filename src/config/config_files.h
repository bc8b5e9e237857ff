#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/node.h"

namespace dpo::config {

// A configuration file, split into its values and its `defaults` list.
struct Document {
  struct Default {
    std::string group;  // empty: another preset of the same group
    std::string name;   // "_self_": the document's own values
    Origin origin;
  };

  Node values;
  bool has_defaults = false;
  std::vector<Default> defaults;  // includes _self_, which comes last unless the file places it
};

// Finds configuration files: first those in the user's folders, then the built-in ones.
class ConfigFiles {
 public:
  explicit ConfigFiles(std::vector<std::filesystem::path> folders);

  // Returns the built-in config.yaml, then the first one in the user's folders, if any.
  std::vector<Document> primaries() const;
  Document file(const std::filesystem::path& path) const;

  std::vector<std::string> presets(const std::string& group) const;
  bool has_preset(const std::string& group, const std::string& name) const;

  // Returns the preset merged with those that it builds on (its defaults list). Throws a UserError for an
  // unknown name, which came from `origin`.
  Node preset(const std::string& group, const std::string& name, const Origin& origin) const;

 private:
  Node preset(const std::string& group, const std::string& name, const Origin& origin, Path& above) const;
  Document load(const std::string& group, const std::string& name) const;

  std::vector<std::filesystem::path> folders_;
};

}  // namespace dpo::config
