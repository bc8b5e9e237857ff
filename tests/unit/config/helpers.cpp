#include "unit/config/helpers.h"

#include <stdlib.h>

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::config {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "dpo-config-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

std::filesystem::path TempFolder::write(const std::string& name, std::string_view text) const {
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

Variable::Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
Variable::~Variable() { unsetenv(name_); }

Words with_needed(Words words) {
  Words all = {"exp_name=e", "model=gpt2-xl"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::string problems_of(const Request& request) {
  try {
    compose(request);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string spelled(const Node& node) {
  std::string inner;
  for (const Node& child : node.children) {
    if (!inner.empty()) inner += ", ";
    if (node.kind == Node::Kind::Map) inner += child.name + ": ";
    inner += spelled(child);
  }
  switch (node.kind) {
    case Node::Kind::Null: return "null";
    case Node::Kind::Missing: return "???";
    case Node::Kind::Text: return '"' + node.text + '"';
    case Node::Kind::List: return "[" + inner + "]";
    case Node::Kind::Map: return "{" + inner + "}";
    default: return node.text;
  }
}

}  // namespace dpo::config
