#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dpo::plan {

// A small YAML file of facts (device figures, length statistics), from configs/FOLDER by name or from the
// user's own file. Every error names the file and the key; finish() rejects keys that were not read.
class FactFile {
 public:
  // `name` is a built-in name of configs/FOLDER, or else a path.
  FactFile(const std::string& folder, const std::string& name);
  ~FactFile();
  FactFile(const FactFile&) = delete;
  FactFile& operator=(const FactFile&) = delete;

  double number(const std::string& key, double least);
  std::optional<double> optional_number(const std::string& key, double least);
  bool flag(const std::string& key, bool fallback);
  std::vector<std::string> texts(const std::string& key);
  std::vector<double> numbers(const std::string& key, double least);
  void finish() const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace dpo::plan
