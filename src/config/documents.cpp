#include <fmt/format.h>

#include "config/assets.h"
#include "config/print.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

std::string section_of(const Field& field) {
  const Path path = split_path(field.key);
  return path.size() > 1 ? path.front() : "";
}

// The help in lines of readable length, each after `prefix`.
std::string wrapped(const std::string& text, const std::string& prefix) {
  constexpr std::size_t kWidth = 100;
  std::string out;
  std::string line = prefix;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::string word = text.substr(start, end - start);
    if (line.size() + word.size() + 1 > kWidth) {
      out += line + "\n";
      line = prefix;
    }
    line += " " + word;
    start = end + 1;
  }
  return out + line + "\n";
}

std::string or_list(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string markdown_row(const Field& field) {
  const std::string losses = field.losses.empty() ? "" : fmt::format(" Losses: {}.", or_list(field.losses));
  const std::string value =
      field.default_text == "???" ? "must be set" : fmt::format("`{}`", field.default_text);
  return fmt::format("| `{}` | {} | {} | {}{} |\n", field.key, value, field.expected, field.help, losses);
}

std::string markdown_table(const std::string& section) {
  std::string out = "| key | default | value | meaning |\n|---|---|---|---|\n";
  for (const Field& field : schema())
    if (section_of(field) == section) out += markdown_row(field);
  return out;
}

}  // namespace

std::string default_config_yaml() {
  std::string out =
      "# The default of every key; those of model and loss are in their presets. Written by\n"
      "# `dpo config --defaults` from the schema (src/config/schema.cpp): change it there.\n"
      "defaults:\n"
      "  - _self_\n"
      "  - model: blank_model\n"
      "  - loss: sft\n";
  std::string open;
  for (const Field& field : schema()) {
    const std::string section = section_of(field);
    if (is_group(section)) continue;
    if (!section.empty() && section != open) out += fmt::format("\n{}:", section);
    const std::string indent = section.empty() ? "" : "  ";
    const std::string name = split_path(field.key).back();
    out += "\n" + wrapped(field.help, indent + "#") +
           fmt::format("{}{}: {}\n", indent, name, field.default_text);
    open = section;
  }
  return out;
}

std::string configuration_markdown() {
  std::string out = fmt::format(
      "# Configuration\n\n"
      "Written by `dpo config --markdown` from the schema (`src/config/schema.cpp`): change it there.\n\n"
      "Values are given as `KEY=VALUE` words, in a file (`--config FILE`), or in presets; `dpo config` "
      "shows\n"
      "the result and where each value came from.\n\n"
      "## Keys of a run\n\n{}",
      markdown_table(""));
  for (const std::string& section : sections()) {
    out += fmt::format("\n## `{}`\n\n", section);
    if (is_group(section))
      out += fmt::format("Presets (`{}=NAME`): {}.\n\n", section, or_list(assets_in(section)));
    out += markdown_table(section);
  }
  return out;
}

}  // namespace dpo::config
