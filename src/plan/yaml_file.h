#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/node.h"

namespace dpo::plan {

// A small YAML file (device figures, length statistics), from configs/FOLDER by name or from the user's own
// file. Every error names the file and the key. finish() rejects keys that were not read.
class YamlFile {
 public:
  // Reads a file. `name` is a built-in name of configs/FOLDER, or else a path.
  YamlFile(const std::string& folder, const std::string& name);

  double number(const std::string& key, double least);
  std::optional<double> optional_number(const std::string& key, double least);
  bool flag(const std::string& key, bool otherwise);
  std::vector<std::string> texts(const std::string& key);
  std::vector<double> numbers(const std::string& key, double least);  // as listed
  void finish() const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  const config::Node* find(const std::string& key);  // "train.pairs" walks into a map; null if it is not set
  std::vector<config::Node> list(const std::string& key);

  std::string origin_;
  config::Node root_;
  std::set<std::string> read_;  // top-level keys
};

}  // namespace dpo::plan
