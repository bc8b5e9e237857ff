#include "plan/yaml_file.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/nearest.h"
#include "config/assets.h"
#include "config/field.h"
#include "config/yaml_reader.h"

namespace dpo::plan {
namespace {

using config::Node;

constexpr double kLargestFigure = 1e15;  // sums and products of figures stay finite

bool read_number(const Node& node, double least, double& value) {
  return config::convert(node, value) && value >= least && value <= kLargestFigure;
}

bool begins_with(const std::string& name, const std::string& beginning) {
  return name.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), name.begin(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

// Prefers names that begin with `name` over similar ones: "a100" is nearer to "h100", but means a100-40gb or
// a100-80gb.
std::string hint_for_name(const std::string& name, std::vector<std::string> names) {
  const std::string near = did_you_mean(name, names);
  std::erase_if(names, [&](const std::string& known) { return !begins_with(known, name); });
  return name.empty() || names.empty() ? near
                                       : fmt::format("; did you mean '{}'?", fmt::join(names, "' or '"));
}

}  // namespace

YamlFile::YamlFile(const std::string& folder, const std::string& name) {
  std::string text;
  if (const auto built_in = config::asset(folder + "/" + name + ".yaml")) {
    origin_ = "configs/" + folder + "/" + name + ".yaml";
    text = *built_in;
  } else if (name.find('/') != std::string::npos || name.find('.') != std::string::npos) {
    origin_ = name;
    text = read_text_file(name, folder + " figures", config::kLargestFile);
  } else {
    const auto names = config::assets_in(folder);
    throw UserError(fmt::format("no {} named '{}' (built in: {}; or give a YAML file){}", folder, name,
                                fmt::join(names, ", "), hint_for_name(name, names)));
  }
  root_ = config::read_yaml(text, origin_);
}

const Node* YamlFile::find(const std::string& key) {
  const config::Path path = config::split_path(key);
  read_.insert(path.front());
  const Node* const node = config::find_node(root_, path);
  return node && node->kind != Node::Kind::Null ? node : nullptr;
}

std::optional<double> YamlFile::optional_number(const std::string& key, double least) {
  const Node* const node = find(key);
  if (!node) return std::nullopt;
  double value = 0;
  if (!read_number(*node, least, value))
    fail(
        fmt::format("'{}' is {}, expected a number from {} to {}", key, shown(*node), least, kLargestFigure));
  return value;
}

double YamlFile::number(const std::string& key, double least) {
  const auto value = optional_number(key, least);
  if (!value) fail(fmt::format("'{}' is missing", key));
  return *value;
}

bool YamlFile::flag(const std::string& key, bool otherwise) {
  const Node* const node = find(key);
  if (!node) return otherwise;
  bool value = false;
  if (!config::convert(*node, value))
    fail(fmt::format("'{}' is {}, expected true or false", key, shown(*node)));
  return value;
}

std::vector<Node> YamlFile::list(const std::string& key) {
  const Node* const node = find(key);
  if (!node) return {};
  if (node->kind != Node::Kind::List) fail(fmt::format("'{}' is {}, expected a list", key, shown(*node)));
  return node->children;
}

std::vector<std::string> YamlFile::texts(const std::string& key) {
  std::vector<std::string> values;
  for (const Node& item : list(key))
    if (!config::convert(item, values.emplace_back()))
      fail(fmt::format("'{}' contains {}, expected text", key, shown(item)));
  return values;
}

std::vector<double> YamlFile::numbers(const std::string& key, double least) {
  std::vector<double> values;
  for (const Node& item : list(key))
    if (!read_number(item, least, values.emplace_back()))
      fail(fmt::format("'{}' contains {}, expected numbers of at least {}", key, shown(item), least));
  return values;
}

void YamlFile::finish() const {
  const std::vector<std::string> known(read_.begin(), read_.end());
  for (const Node& child : root_.children)
    if (!read_.contains(child.name))
      fail(fmt::format("unknown key '{}'{}", config::shown(child.name), did_you_mean(child.name, known)));
}

void YamlFile::fail(const std::string& what) const { throw UserError(fmt::format("{}: {}", origin_, what)); }

}  // namespace dpo::plan
