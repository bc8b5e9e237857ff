#include "config/compose.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "config/apply.h"
#include "config/config_files.h"
#include "config/interpolate.h"
#include "config/read.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;
using Texts = std::vector<std::string>;
using Problems = Texts;

// A preset that the command line chooses: model=pythia28.
struct Choice {
  std::string name;
  Origin origin;
};
using Choices = std::map<std::string, Choice>;

// The arguments of the command line: presets to choose, and changes to make in order.
struct Arguments {
  Choices choices;
  std::vector<Override> changes;
};

// Runs `work`, and adds the problems that it throws to `problems`.
template <class Work>
void collect(Problems& problems, Work work) {
  try {
    work();
  } catch (const UserError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
}

void choose(Arguments& arguments, const Override& change) {
  const auto fail = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {} (command line: {})", change.key, what, shown(change.text)));
  };
  if (change.kind == Override::Kind::Delete)
    fail(fmt::format("required, cannot be removed; choose another preset: {}=NAME", change.key));
  if (change.kind != Override::Kind::Change)
    fail(fmt::format("a preset is already chosen; write {}=NAME without '+' to choose another", change.key));
  if (change.value->kind != Kind::Text || change.value->text.empty())
    fail(fmt::format("got {}, expected the name of one preset", shown(*change.value)));
  arguments.choices[change.key] = {change.value->text, change.value->origin};
}

// A required key whose argument could not be parsed is not reported as missing too.
void mark_broken(Arguments& arguments, const std::string& text) {
  const std::string key = text.substr(0, text.find('='));
  if (const Field* const field = find_field(key); field && field->default_text == "???")
    arguments.changes.push_back({.key = key, .value = make_scalar(Kind::Broken, "", {}), .text = text});
}

Arguments read_arguments(std::span<const std::string> overrides, Problems& problems) {
  Arguments arguments;
  for (const std::string& text : overrides) {
    const std::size_t before = problems.size();
    collect(problems, [&] {
      Override change = parse_override(text);
      const bool is_map = change.value && change.value->kind == Kind::Map;
      if (is_group(change.key) && !is_map)
        choose(arguments, change);
      else
        arguments.changes.push_back(std::move(change));
    });
    if (problems.size() > before) mark_broken(arguments, text);
  }
  return arguments;
}

// One layer of the tree: a document's own values (group empty), or a preset.
struct Layer {
  std::string group;
  Choice preset;
  Node values;
};

// Removes from a document the groups that the command line chooses, and notes it.
void drop_replaced(Node& values, const Choices& choices, Texts& notes) {
  std::erase_if(values.children, [&](const Node& child) {
    const auto chosen = choices.find(child.name);
    if (chosen == choices.end()) return false;
    Texts keys;
    for (const Node& key : child.children) keys.push_back(shown(child.name + "." + key.name));
    if (!keys.empty())
      notes.push_back(fmt::format(
          "{0}={1} replaces the whole section '{0}' of {2}; dropped: {3} (give them on the command "
          "line to keep them)",
          child.name, shown(chosen->second.name), child.origin.phrase(), fmt::join(keys, ", ")));
    return true;
  });
}

// The layers of all documents in order. A group that a later document names moves there; one that the command
// line chooses also replaces what a document without a defaults list says about it.
std::vector<Layer> layers_of(std::vector<Document> documents, const Choices& choices, Texts& notes) {
  std::vector<Layer> layers;
  for (Document& document : documents) {
    for (const Document::Default& entry : document.defaults) {
      if (entry.group.empty() && entry.name == "_self_") {
        if (!document.has_defaults) drop_replaced(document.values, choices, notes);
        layers.push_back({"", {}, std::move(document.values)});
        continue;
      }
      if (!is_group(entry.group))
        throw UserError(
            fmt::format("defaults: got '{}', expected _self_, 'model: NAME', 'loss: NAME' or "
                        "'adapter: NAME' ({})",
                        shown(entry.group.empty() ? entry.name : entry.group), entry.origin.phrase()));
      std::erase_if(layers, [&](const Layer& layer) { return layer.group == entry.group; });
      const auto chosen = choices.find(entry.group);
      const Choice preset = chosen != choices.end() ? chosen->second : Choice{entry.name, entry.origin};
      layers.push_back({entry.group, preset, make_map({})});
    }
  }
  return layers;
}

Node section(std::string name, Node values) {
  Node wrapped = make_map(values.origin);
  values.name = std::move(name);
  wrapped.children.push_back(std::move(values));
  return wrapped;
}

// A section written as a plain value in a file would hide what the presets say. It is Broken once reported.
void check_sections(Node& values, Problems& problems) {
  for (Node& child : values.children) {
    if (!is_section(child.name) || child.kind == Kind::Map) continue;
    const std::string remedy =
        is_group(child.name)
            ? fmt::format("; to choose a preset write 'defaults: [_self_, {}: NAME]'", child.name)
            : "";
    problems.push_back(fmt::format("{}: got {}, expected a map of keys ({}){}", child.name, shown(child),
                                   child.origin.phrase(), remedy));
    child.kind = Kind::Broken;
  }
}

// A preset that cannot be loaded leaves a Broken section, so that its keys are not reported as missing too.
Node load_preset(const ConfigFiles& files, const std::string& group, const Choice& choice,
                 Problems& problems) {
  Node values;
  values.kind = Kind::Broken;
  collect(problems, [&] { values = files.preset(group, choice.name, choice.origin); });
  return values;
}

Node compose_tree(const Request& request, const Choices& choices, Problems& problems, Texts& notes) {
  const ConfigFiles files(request.config_dirs);
  std::vector<Document> documents = files.primaries();
  if (request.config_file) documents.push_back(files.file(*request.config_file));
  Node tree = make_map({});
  for (Layer& layer : layers_of(std::move(documents), choices, notes)) {
    check_sections(layer.values, problems);
    merge(tree, layer.group.empty()
                    ? std::move(layer.values)
                    : section(layer.group, load_preset(files, layer.group, layer.preset, problems)));
  }
  return tree;
}

// Marks required keys that this command does without, so that they are not reported as missing.
void excuse(Node& tree, const std::vector<std::string>& not_needed) {
  for (const std::string& key : not_needed)
    if (Node* const node = find_node(tree, split_path(key)); node && node->kind == Kind::Missing)
      node->kind = Kind::Broken;
}

Resolved finish(Node tree, const std::vector<Override>& changes, Problems problems, Texts notes,
                const std::vector<std::string>& not_needed = {}, bool interpolates = true) {
  for (const Override& change : changes) collect(problems, [&] { apply(tree, change); });
  if (count_nodes(tree) > kMostNodes) throw UserError(fmt::format("more than {} values", kMostNodes));
  fill_defaults(tree);
  interpolates ? interpolate(tree, problems) : keep_interpolations(tree);
  fill_defaults(tree);
  excuse(tree, not_needed);
  Resolved resolved;
  resolved.notes = std::move(notes);
  resolved.values = read_tree(tree, problems, resolved.notes);
  if (!problems.empty()) throw UserError(problems);
  resolved.tree = std::make_shared<const Node>(std::move(tree));
  return resolved;
}

}  // namespace

Resolved compose(const Request& request) {
  Problems problems;
  Texts notes;
  const Arguments arguments = read_arguments(request.overrides, problems);
  Node tree;
  bool complete = false;
  collect(problems, [&] {
    tree = compose_tree(request, arguments.choices, problems, notes);
    complete = true;
  });
  if (!complete) throw UserError(problems);  // without a file, most of what follows would be wrong too
  return finish(std::move(tree), arguments.changes, std::move(problems), std::move(notes), request.not_needed,
                request.interpolates);
}

RunConfig with_overrides(const RunConfig& base, std::span<const std::string> overrides) {
  Problems problems;
  const Arguments arguments = read_arguments(overrides, problems);
  Node tree = write_tree(base);
  const ConfigFiles built_in({});
  for (const auto& [group, choice] : arguments.choices)
    assign(*find_child(tree, group), load_preset(built_in, group, choice, problems));
  return finish(std::move(tree), arguments.changes, std::move(problems), {}).values;
}

std::string origin_of(const Resolved& resolved, std::string_view key) {
  const Node* const node = find_node(*resolved.tree, split_path(key));
  return node ? node->origin.label() : "default";
}

}  // namespace dpo::config
