#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/compose.h"
#include "config/node.h"

namespace dpo::config {

using Words = std::vector<std::string>;

// A folder that exists for one test.
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

// An environment variable that is set for one test.
class Variable {
 public:
  Variable(const char* name, const char* value);
  ~Variable();
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// Returns the arguments after those that every run needs.
Words with_needed(Words words);

// Returns all messages of the UserError that composing throws, one per line, or "" if it throws none.
std::string problems_of(const Request& request);

// Returns a value in a form that shows its kind: 5, "text", [1, 2.0], {a: null}, ???.
std::string spelled(const Node& node);

}  // namespace dpo::config
