#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/assets.h"
#include "config/print.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

std::string section_of(const Field& field) {
  const Path path = split_path(field.key);
  return path.size() > 1 ? path.front() : "";
}

constexpr const char* kHowTo =
    "| word | does |\n|---|---|\n"
    "| `model=pythia28` | chooses a preset; the last choice of a group holds |\n"
    "| `loss.beta=0.1` | sets a key |\n"
    "| `datasets=[hh,shp]`, `wandb={enabled: false}` | a list replaces, a map is laid over what is there |\n"
    "| `exp_name='a, b=c'`, `exp_name=a\\,b` | text with `,` `=` `#` and the like is quoted or escaped |\n"
    "| `n_epochs=null`, `~n_epochs` | takes a value away, where the key allows it |\n"
    "| `+note=1` | adds a key that the program does not know; in a file: `+note: 1` |\n"
    "| `++lr=1e-6` | sets a key, whether it is there or not |\n"
    "| `max_length=${max_prompt_length}` | the value of another key; `${.name}` is one beside it |\n"
    "| `local_run_dir=~/runs/a`, `datasets=[~/my.jsonl]` | a path may begin with `~/`, the home folder |\n"
    "| `exp_name=${oc.env:NAME,default}` | the value of an environment variable |\n\n"
    "A FILE holds the same keys as YAML, laid over the defaults. A list `defaults: [_self_, model: "
    "pythia28]` in it\n"
    "chooses presets and says in which order they and the file's own values are laid over each other; "
    "without\n"
    "one, the file's values come last, and a preset of the command line replaces the file's whole section,\n"
    "which a note says.\n"
    "`--config-dir DIR` adds presets of your own, `DIR/model/NAME.yaml` and `DIR/loss/NAME.yaml`, which may "
    "build on\n"
    "others (`defaults: [pythia28, _self_]`), and `DIR/config.yaml`, which is laid over the built-in one.\n";

std::string or_list(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string markdown_row(const Field& field) {
  const std::string losses = field.losses.empty() ? "" : fmt::format(" Losses: {}.", or_list(field.losses));
  const std::string optimizers =
      field.optimizers.empty() ? "" : fmt::format(" Optimizers: {}.", or_list(field.optimizers));
  const std::string value =
      field.default_text == "???" ? "must be set" : fmt::format("`{}`", field.default_text);
  return fmt::format("| `{}` | {} | {} | {}{}{} |\n", field.key, value, field.expected, field.help, losses,
                     optimizers);
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
    out += "\n" + wrapped(field.help, indent + "# ", indent + "# ") +
           fmt::format("{}{}: {}\n", indent, name, field.default_text);
    open = section;
  }
  return out;
}

std::string configuration_markdown() {
  std::string out = fmt::format(
      "# Configuration\n\n"
      "Written by `dpo config --markdown` from the schema (`src/config/schema.cpp`): change it there.\n\n"
      "Values are given as words on the command line, in a file (`--config FILE`), or in presets; `dpo "
      "config WORDS`\n"
      "shows the result and where each value came from. Its output is itself a valid FILE. `dpo config` "
      "alone lists\n"
      "every key with its default, `dpo config KEY` explains one.\n\n"
      "{}\n"
      "## Keys of a run\n\n{}",
      kHowTo, markdown_table(""));
  for (const std::string& section : sections()) {
    out += fmt::format("\n## `{}`\n\n", section);
    if (is_group(section))
      out += fmt::format("Presets (`{}=NAME`): {}.\n\n", section, or_list(assets_in(section)));
    out += markdown_table(section);
  }
  return out;
}

}  // namespace dpo::config
