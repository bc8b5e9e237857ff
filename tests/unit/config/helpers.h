#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/compose.h"
#include "config/node.h"

namespace dpo::config {

using Words = std::vector<std::string>;

// A folder that is there for one test.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

// A variable of the environment that is set for one test.
class Variable {
 public:
  Variable(const char* name, const char* value);
  ~Variable();
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// The arguments, after those that every run needs.
Words with_needed(Words words);

// All messages of the UserError that composing throws, a line each; empty if it throws none.
std::string problems_of(const Request& request);

// A value in a form that shows its kind: 5, "text", [1, 2.0], {a: null}, ???.
std::string spelled(const Node& node);

}  // namespace dpo::config
