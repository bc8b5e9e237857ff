#include "config/explain.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "config/assets.h"
#include "config/key_hints.h"
#include "config/print.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

// The main keys in order of use.
constexpr const char* kMainKeys[] = {"model.name_or_path", "model.archive", "datasets", "loss.name",
                                     "loss.beta",          "exp_name",      "lr",       "batch_size",
                                     "n_epochs",           "max_length"};

std::string default_or_required(const Field& field) {
  return field.default_text == "???" ? "required" : field.default_text;
}

std::string entry(const Field& field) {
  constexpr const char* kIndent = "      ";
  return fmt::format("  {:<28} {}\n", field.key, default_or_required(field)) +
         wrapped(field.help, kIndent, kIndent);
}

std::string presets_line(const std::string& group) {
  return wrapped(fmt::format("{}=NAME chooses a preset: {}.", group, fmt::join(assets_in(group), ", ")), "  ",
                 "  ");
}

// Describes the current value of a key.
std::string value_line(const Field& field, const Resolved& resolved) {
  const Node* const node = find_node(*resolved.tree, split_path(field.key));
  if (!node) return fmt::format("not used with loss={}", name_of(resolved.values.loss.name));
  if (node->kind == Node::Kind::Broken) return "not set";
  if (node->origin.kind == Origin::Kind::Default) return "the default";
  return fmt::format("{} ({})", shown(field.write(resolved.values)), node->origin.phrase());
}

std::string explain_key(const Field& field, const Resolved& resolved) {
  const auto line = [](const char* name, const std::string& text) {
    return wrapped(text, fmt::format("  {:<8} ", name), std::string(11, ' '));
  };
  std::string out = field.key + "\n" + wrapped(field.help, "  ", "  ");
  out += line("type", field.expected);
  if (!field.names.empty()) out += line("names", fmt::format("{}", fmt::join(field.names, ", ")));
  out += line("default", default_or_required(field));
  if (!field.losses.empty())
    out += line("losses", fmt::format("{}", fmt::join(names_of(field.losses), ", ")));
  if (!field.optimizers.empty())
    out += line("only for", fmt::format("optimizer={}", fmt::join(names_of(field.optimizers), ", ")));
  out += line("now", value_line(field, resolved));
  return out;
}

}  // namespace

std::string main_keys_text() {
  std::string out;
  for (const char* key : kMainKeys) {
    const Field& field = *find_field(key);
    out += wrapped(field.help, fmt::format("  {:<19} {:<12} ", field.key, default_or_required(field)),
                   std::string(35, ' '));
  }
  return out;
}

std::string all_keys_text() {
  std::string out =
      "Every key with its default. KEY=VALUE on the command line sets one, --config FILE several;\n"
      "'dpo config KEY' explains one, 'dpo config KEY=VALUE ...' shows what a run would get.\n";
  std::string open = "none";
  for (const Field& field : schema()) {
    const std::size_t dot = field.key.find('.');
    const std::string section = dot == std::string::npos ? "" : field.key.substr(0, dot);
    if (section != open) out += section.empty() ? "\n" : fmt::format("\n{}\n", section);
    if (section != open && is_group(section)) out += presets_line(section);
    out += entry(field);
    open = section;
  }
  return out;
}

std::string explain(const std::string& name, const Resolved& resolved) {
  if (const Field* const field = find_field(name)) return explain_key(*field, resolved);
  if (!is_section(name)) {
    std::vector<std::string> names = all_keys();
    names.insert(names.end(), sections().begin(), sections().end());
    const std::string near = did_you_mean_key(name);
    throw UserError(fmt::format("{}: unknown key ('dpo config' alone lists all){}", shown(name),
                                near.empty() ? did_you_mean(name, names) : near));
  }
  std::string out = fmt::format("{}: a section of keys\n", name);
  if (is_group(name)) out += presets_line(name);
  for (const Field& field : schema())
    if (field.key.starts_with(name + ".")) out += "\n" + explain_key(field, resolved);
  return out;
}

std::vector<std::string> required_keys() {
  std::vector<std::string> keys;
  for (const Field& field : schema())
    if (field.default_text == "???") keys.push_back(field.key);
  return keys;
}

}  // namespace dpo::config
