#include "config/compose.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/user_path.h"
#include "config/apply.h"
#include "config/config_files.h"
#include "config/defaults.h"
#include "config/interpolate.h"
#include "config/modern.h"
#include "config/read.h"
#include "config/resumed_run.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;
using Texts = std::vector<std::string>;
using Problems = Texts;

// A preset chosen on the command line: model=pythia28.
struct Choice {
  std::string name;
  Origin origin;
};
using Choices = std::map<std::string, Choice>;

// The command-line arguments: presets to choose, and changes in order.
struct Arguments {
  Choices choices;
  std::vector<Override> changes;
  std::string short_form;  // the arguments in short form; "" if there are none
};

// Runs `work` and adds the problems that it throws to `problems`.
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

// Marks a required key whose argument could not be parsed, so that it is not reported as missing too.
void mark_broken(Arguments& arguments, const std::string& text) {
  const std::string key = text.substr(0, text.find('='));
  if (const Field* const field = find_field(key); field && field->default_text == "???")
    arguments.changes.push_back({.key = key, .value = make_scalar(Kind::Broken, "", {}), .text = text});
}

// Returns true if model=NAME names a model rather than a preset.
bool names_model(const std::string& name, const ConfigFiles& files) {
  std::error_code none;
  return !files.has_preset("model", name) &&
         (name.find('/') != name.npos || std::filesystem::is_directory(expand_home(name), none));
}

// Expands the short form: model=FOLDER is model.name_or_path=FOLDER, and data=FILE is datasets=[FILE].
bool take_short_form(Arguments& arguments, const Override& change, const ConfigFiles& files) {
  if (change.kind != Override::Kind::Change || !change.value) return false;
  Override whole = change;
  const Kind kind = change.value->kind;
  if (change.key == "model" && kind == Kind::Text && names_model(change.value->text, files)) {
    arguments.choices["model"] = {"blank_model", change.value->origin};
    whole.key = "model.name_or_path";
  } else if (change.key == "data" && (kind == Kind::Text || kind == Kind::List)) {
    whole.key = "datasets";
    if (kind == Kind::Text) {
      Node list = make_map(change.value->origin);
      list.kind = Kind::List;
      list.children.push_back(*change.value);
      whole.value = std::move(list);
    }
  } else {
    return false;
  }
  arguments.short_form += (arguments.short_form.empty() ? "" : " ") + change.text;
  arguments.changes.push_back(std::move(whole));
  return true;
}

Arguments read_arguments(std::span<const std::string> overrides, const ConfigFiles& files,
                         Problems& problems) {
  Arguments arguments;
  for (const std::string& text : overrides) {
    const std::size_t before = problems.size();
    collect(problems, [&] {
      Override change = parse_override(text);
      if (take_short_form(arguments, change, files)) return;
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

// Removes the groups that the command line chooses from a document, and adds a note about it.
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

// Returns the layers of all documents in order. A group that a later document names moves to that document. A
// group that the command line chooses also replaces its values in a document without a defaults list.
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

// Reports a section that is a plain value in a file, which would hide the presets' values, and makes it
// Broken.
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

// Loads a preset. If that fails, returns a Broken section, so that its keys are not reported as missing too.
Node load_preset(const ConfigFiles& files, const std::string& group, const Choice& choice,
                 Problems& problems) {
  Node values;
  values.kind = Kind::Broken;
  collect(problems, [&] { values = files.preset(group, choice.name, choice.origin); });
  return values;
}

// Returns the configuration of the run that resume=RUN on the command line continues.
std::optional<Document> resumed_run(const Request& request, const Arguments& arguments,
                                    const ConfigFiles& files) {
  const auto last =
      std::ranges::find(arguments.changes.rbegin(), arguments.changes.rend(), "resume", &Override::key);
  if (last == arguments.changes.rend() || !last->value || last->value->kind != Kind::Text)
    return std::nullopt;
  auto run = configuration_of(last->value->text, files);
  if (!run && last->value->text != "auto" && !request.config_file && !arguments.choices.contains("model"))
    throw UserError(fmt::format("{}: there is no {} in it; give a run folder, or one of its step-N folders",
                                last->text, kRunConfigFile));
  return run;
}

Node compose_tree(const Request& request, const ConfigFiles& files, const Arguments& arguments,
                  Problems& problems, Texts& notes) {
  std::vector<Document> documents = files.primaries();
  if (auto run = resumed_run(request, arguments, files)) {
    Texts ignored_notes;  // not needed: on resume, a preset that differs from the run's is an error
    drop_replaced(run->values, arguments.choices, ignored_notes);
    documents.push_back(std::move(*run));
  }
  if (request.config_file) documents.push_back(files.file(*request.config_file));
  Node tree = make_map({});
  for (Layer& layer : layers_of(std::move(documents), arguments.choices, notes)) {
    check_sections(layer.values, problems);
    merge(tree, layer.group.empty()
                    ? std::move(layer.values)
                    : section(layer.group, load_preset(files, layer.group, layer.preset, problems)));
  }
  return tree;
}

// Marks required keys that this command does not need, so that they are not reported as missing.
void allow_missing(Node& tree, const std::vector<std::string>& not_needed) {
  for (const std::string& key : not_needed)
    if (Node* const node = find_node(tree, split_path(key)); node && node->kind == Kind::Missing)
      node->kind = Kind::Broken;
}

// Selects defaults=modern for the short form, unless the user gave `defaults`.
void choose_defaults(Node& tree, const Arguments& arguments, const std::vector<std::string>& not_needed,
                     Problems& problems) {
  Node& defaults = *find_child(tree, kDefaultsKey);
  if (!arguments.short_form.empty() && !is_given(defaults))
    assign(defaults, make_scalar(Kind::Text, name_of(Defaults::modern),
                                 {Origin::Kind::Default, "chosen by " + arguments.short_form}));
  const bool needs_data = std::ranges::find(not_needed, "datasets") == not_needed.end();
  if (defaults.text == name_of(Defaults::modern)) set_modern_defaults(tree, needs_data, problems);
}

void apply_all(Node& tree, const std::vector<Override>& changes, Problems& problems) {
  for (const Override& change : changes) collect(problems, [&] { apply(tree, change); });
  if (count_nodes(tree) > kMostNodes) throw UserError(fmt::format("more than {} values", kMostNodes));
  fill_defaults(tree);
}

Resolved finish(Node tree, Problems problems, Texts notes, const std::vector<std::string>& not_needed = {},
                bool interpolates = true) {
  interpolates ? interpolate(tree, problems) : keep_interpolations(tree);
  fill_defaults(tree);
  allow_missing(tree, not_needed);
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
  Arguments arguments;
  Node tree;
  bool complete = false;
  collect(problems, [&] {
    const ConfigFiles files(request.config_dirs);
    arguments = read_arguments(request.overrides, files, problems);
    tree = compose_tree(request, files, arguments, problems, notes);
    complete = true;
  });
  if (!complete) throw UserError(problems);  // without a file, most later messages would be wrong
  apply_all(tree, arguments.changes, problems);
  choose_defaults(tree, arguments, request.not_needed, problems);
  return finish(std::move(tree), std::move(problems), std::move(notes), request.not_needed,
                request.interpolates);
}

RunConfig with_overrides(const RunConfig& base, std::span<const std::string> overrides) {
  Problems problems;
  const ConfigFiles built_in({});
  const Arguments arguments = read_arguments(overrides, built_in, problems);
  Node tree = write_tree(base);
  for (const auto& [group, choice] : arguments.choices)
    assign(*find_child(tree, group), load_preset(built_in, group, choice, problems));
  apply_all(tree, arguments.changes, problems);
  return finish(std::move(tree), std::move(problems), {}).values;
}

std::string origin_of(const Resolved& resolved, std::string_view key) {
  const Node* const node = find_node(*resolved.tree, split_path(key));
  return node ? node->origin.label() : "default";
}

}  // namespace dpo::config
