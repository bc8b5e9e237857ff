#include "data/chat_files.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "config/text.h"
#include "data/tokenizer_folder.h"

namespace dpo::data {

text::ChatTemplate find_template(const config::RunConfig& config, const text::Tokenizer& tokenizer) {
  auto found = text::find_chat_template(tokenizer.folder(), config.chat_template.value_or(""));
  if (found) return std::move(*found);
  throw UserError(fmt::format(
      "conversations need a chat template, but the tokenizer in {} has none (chat_template.jinja, or "
      "chat_template in tokenizer_config.json); choose one: chat_template={} or chat_template=FILE (dpo "
      "sample "
      "and dpo score: --chat-template)",
      config::shown(tokenizer.folder().string()), fmt::join(text::builtin_chat_templates(), "|")));
}

Tools read_tools(const config::RunConfig& config) {
  if (!config.data.tools) return {};
  Tools tools;
  tools.json = read_text_file(*config.data.tools, "data.tools");
  try {
    tools.value = text::jinja::parse_json(tools.json);
  } catch (const text::jinja::Failure& failure) {
    throw UserError(fmt::format("data.tools={}: {}", config::shown(*config.data.tools), failure.what()));
  }
  return tools;
}

void check_chat_files(const config::RunConfig& config) {
  read_tools(config);
  if (!config.chat_template) return;
  const std::string& name = *config.chat_template;
  if (const auto folder = find_tokenizer_folder(config)) {
    text::find_chat_template(*folder, name);
    return;
  }
  // If its tokenizer is not here, a plain word may be the name of one of the tokenizer's templates.
  std::error_code none;
  const bool is_path = name.find_first_of("/.") != name.npos;
  if (is_path && !std::filesystem::is_regular_file(name, none))
    throw UserError(fmt::format("chat_template={}: there is no such file", config::shown(name)));
}

std::optional<bool> has_own_template(const config::RunConfig& config) try {
  const auto folder = find_tokenizer_folder(config);
  return folder ? std::optional(text::find_chat_template(*folder).has_value()) : std::nullopt;
} catch (const UserError&) {
  return false;
}

std::string unused_template_note(const config::RunConfig& config, bool has_chats) {
  const bool is_unused = !has_chats && has_own_template(config).value_or(false);
  return is_unused ? "the data is plain text: the model's chat template is not used" : "";
}

}  // namespace dpo::data
