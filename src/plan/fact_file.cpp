#include "plan/fact_file.h"

#include <set>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/files.h"
#include "base/nearest.h"
#include "config/assets.h"
#include "config/text.h"

namespace dpo::plan {
namespace {

constexpr double kLargestFigure = 1e15;  // sums and products of figures stay finite

bool read_number(const YAML::Node& node, double least, double& value) {
  return YAML::convert<double>::decode(node, value) && value >= least && value <= kLargestFigure;
}

// "train.pairs" walks into a map.
YAML::Node find(const YAML::Node& root, const std::string& key) {
  const auto dot = key.find('.');
  if (dot == std::string::npos) return root[key];
  const YAML::Node inner = root[key.substr(0, dot)];
  return inner.IsDefined() && inner.IsMap() ? inner[key.substr(dot + 1)]
                                            : YAML::Node(YAML::NodeType::Undefined);
}

std::string shown(const YAML::Node& node) {
  return node.IsScalar() ? "'" + config::shown(node.Scalar()) + "'" : "a list or map";
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

struct FactFile::Content {
  std::string origin;
  YAML::Node root;
  std::set<std::string> read;  // top-level keys
};

FactFile::FactFile(const std::string& folder, const std::string& name)
    : content_(std::make_unique<Content>()) {
  std::string text;
  if (const auto built_in = config::asset(folder + "/" + name + ".yaml")) {
    content_->origin = "configs/" + folder + "/" + name + ".yaml";
    text = *built_in;
  } else if (name.find('/') != std::string::npos || name.find('.') != std::string::npos) {
    content_->origin = name;
    text = read_text_file(name, folder + " figures", 1 << 20);
  } else {
    const auto names = config::assets_in(folder);
    throw UserError(fmt::format("no {} named '{}' (built in: {}; or give a YAML file){}", folder, name,
                                list_of(names), did_you_mean(name, names)));
  }
  try {
    content_->root = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    fail(fmt::format("not valid YAML, line {}: {}", error.mark.line + 1, config::shown(error.msg)));
  }
  if (!content_->root.IsMap()) fail("expected a map of keys to values");
}

FactFile::~FactFile() = default;

std::optional<double> FactFile::optional_number(const std::string& key, double least) {
  content_->read.insert(key.substr(0, key.find('.')));
  const YAML::Node node = find(content_->root, key);
  if (!node.IsDefined() || node.IsNull()) return std::nullopt;
  double value = 0;
  if (!node.IsScalar() || !read_number(node, least, value))
    fail(fmt::format("'{}' is {}, expected a number from {} to {}", key, shown(node), least, kLargestFigure));
  return value;
}

double FactFile::number(const std::string& key, double least) {
  const auto value = optional_number(key, least);
  if (!value) fail(fmt::format("'{}' is missing", key));
  return *value;
}

bool FactFile::flag(const std::string& key, bool fallback) {
  content_->read.insert(key);
  const YAML::Node node = find(content_->root, key);
  if (!node.IsDefined() || node.IsNull()) return fallback;
  bool value = false;
  if (!node.IsScalar() || !YAML::convert<bool>::decode(node, value))
    fail(fmt::format("'{}' is {}, expected true or false", key, shown(node)));
  return value;
}

std::vector<std::string> FactFile::texts(const std::string& key) {
  content_->read.insert(key);
  const YAML::Node node = find(content_->root, key);
  std::vector<std::string> values;
  if (!node.IsDefined() || node.IsNull()) return values;
  if (!node.IsSequence()) fail(fmt::format("'{}' is {}, expected a list", key, shown(node)));
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) fail(fmt::format("'{}' contains {}, expected text", key, shown(item)));
    values.push_back(item.Scalar());
  }
  return values;
}

std::vector<double> FactFile::numbers(const std::string& key, double least) {
  std::vector<double> values;
  for (const std::string& text : texts(key)) {
    double value = 0;
    if (!read_number(YAML::Node(text), least, value))
      fail(fmt::format("'{}' contains '{}', expected numbers of at least {}", key, config::shown(text),
                       least));
    values.push_back(value);
  }
  return values;
}

void FactFile::finish() const {
  const std::vector<std::string> known(content_->read.begin(), content_->read.end());
  for (const auto& entry : content_->root) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "(a list or map)";
    if (!content_->read.count(key))
      fail(fmt::format("unknown key '{}'{}", config::shown(key), did_you_mean(key, known)));
  }
}

void FactFile::fail(const std::string& what) const {
  throw UserError(fmt::format("{}: {}", content_->origin, what));
}

}  // namespace dpo::plan
