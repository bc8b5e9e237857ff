#include "config/config_files.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "config/assets.h"
#include "config/schema.h"
#include "config/value_hints.h"
#include "config/yaml_reader.h"

namespace dpo::config {
namespace {

namespace fs = std::filesystem;
using Kind = Node::Kind;

Document::Default read_default(const Node& entry) {
  if (entry.kind == Kind::Text) return {"", entry.text, entry.origin};
  if (entry.kind == Kind::Map && entry.children.size() == 1 && entry.children[0].kind == Kind::Text)
    return {entry.children[0].name, entry.children[0].text, entry.children[0].origin};
  throw UserError(fmt::format("defaults: got {}, expected _self_ or a line such as 'model: pythia28' ({})",
                              shown(entry), entry.origin.phrase()));
}

// Handles "+name: value" in a file, which is equivalent to +name=value on the command line.
void read_plus_signs(Node& map) {
  for (Node& child : map.children) {
    if (is_section(child.name) && child.kind == Kind::Map) read_plus_signs(child);
    if (child.name.size() < 2 || child.name.front() != '+') continue;
    const std::string name = child.name.substr(1);
    if (find_child(map, name))
      throw UserError(
          fmt::format("'{}' is given twice, with and without '+' ({})", shown(name), child.origin.phrase()));
    child.name = name;
    child.added = true;
  }
}

Document as_document(Node values) {
  Document document;
  if (Node* const list = find_child(values, kDefaultsKey); list && !list->is_scalar()) {
    if (list->kind != Kind::List)
      throw UserError(
          fmt::format("defaults: got {}, expected original, modern, or a list such as [_self_, "
                      "model: pythia28] ({})",
                      shown(*list), list->origin.phrase()));
    for (const Node& entry : list->children) document.defaults.push_back(read_default(entry));
    document.has_defaults = true;
    values.children.erase(values.children.begin() + (list - values.children.data()));
  }
  const bool says_self =
      std::any_of(document.defaults.begin(), document.defaults.end(),
                  [](const auto& entry) { return entry.group.empty() && entry.name == "_self_"; });
  if (!says_self) document.defaults.push_back({"", "_self_", values.origin});
  read_plus_signs(values);
  document.values = std::move(values);
  return document;
}

Document read_document(const fs::path& path) {
  return as_document(read_yaml(read_text_file(path, "configuration", kLargestFile), path.string()));
}

// Parses the presets only once, because a search for the best plan composes hundreds of times.
const std::map<std::string, Document>& built_in_presets() {
  static const std::map<std::string, Document> presets = [] {
    std::map<std::string, Document> all;
    for (const std::string& group : groups())
      for (const std::string& name : assets_in(group)) {
        const std::string path = fmt::format("{}/{}.yaml", group, name);
        all.emplace(path, as_document(read_yaml(asset(path).value(), path, Origin::Kind::Preset)));
      }
    return all;
  }();
  return presets;
}

std::string hint_for_preset(const std::string& group, const std::string& name,
                            const std::vector<std::string>& names) {
  return hint_for_value(group + ".name", name, names) +
         (group == "model" ? "; a folder is model=./NAME, a model of the Hugging Face hub model=ORG/NAME"
                           : "");
}

}  // namespace

ConfigFiles::ConfigFiles(std::vector<fs::path> folders) : folders_(std::move(folders)) {
  for (const fs::path& folder : folders_) {
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored))
      throw UserError(fmt::format("--config-dir: {} is not a folder", shown(folder.string())));
  }
}

std::vector<Document> ConfigFiles::primaries() const {
  static const Document built_in = as_document(read_default_yaml(asset("config.yaml").value()));
  std::vector<Document> documents = {built_in};
  for (const fs::path& folder : folders_) {
    if (!fs::exists(folder / "config.yaml")) continue;
    documents.push_back(read_document(folder / "config.yaml"));
    break;
  }
  return documents;
}

Document ConfigFiles::file(const fs::path& path) const { return read_document(path); }

std::vector<std::string> ConfigFiles::presets(const std::string& group) const {
  const std::vector<std::string> built_in = assets_in(group);
  std::set<std::string> names(built_in.begin(), built_in.end());
  for (const fs::path& folder : folders_) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder / group, ignored))
      if (entry.path().extension() == ".yaml") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

bool ConfigFiles::has_preset(const std::string& group, const std::string& name) const {
  const std::vector<std::string> names = presets(group);
  return std::find(names.begin(), names.end(), name) != names.end();
}

Document ConfigFiles::load(const std::string& group, const std::string& name) const {
  const std::string relative = fmt::format("{}/{}.yaml", group, name);
  for (const fs::path& folder : folders_)
    if (fs::exists(folder / relative)) return read_document(folder / relative);
  return built_in_presets().at(relative);
}

Node ConfigFiles::preset(const std::string& group, const std::string& name, const Origin& origin) const {
  Path above;
  return preset(group, name, origin, above);
}

Node ConfigFiles::preset(const std::string& group, const std::string& name, const Origin& origin,
                         Path& above) const {
  const std::vector<std::string> names = presets(group);
  if (!has_preset(group, name))
    throw UserError(fmt::format("{}: there is no preset '{}', expected one of {} ({}){}", group, shown(name),
                                fmt::join(names, ", "), origin.phrase(),
                                hint_for_preset(group, name, names)));
  if (std::find(above.begin(), above.end(), name) != above.end())
    throw UserError(
        fmt::format("{}: the preset '{}' builds on itself ({})", group, shown(name), origin.phrase()));
  if (above.size() >= kDeepestNesting)
    throw UserError(fmt::format("{}: more than {} presets build on each other", group, kDeepestNesting));
  above.push_back(name);
  Document document = load(group, name);
  Node result = make_map(document.values.origin);
  for (const Document::Default& entry : document.defaults) {
    if (!entry.group.empty())
      throw UserError(
          fmt::format("defaults: got '{}: {}', expected the name of another {} preset or _self_ ({})",
                      shown(entry.group), shown(entry.name), group, entry.origin.phrase()));
    merge(result, entry.name == "_self_" ? document.values : preset(group, entry.name, entry.origin, above));
  }
  above.pop_back();
  return result;
}

}  // namespace dpo::config
