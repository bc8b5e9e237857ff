#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "text/chat_template.h"
#include "text/folder.h"

namespace dpo::text {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kMoreTemplates = "additional_chat_templates";

struct NamedTemplate {
  std::string source;
  std::string label;  // for messages
};
using NamedTemplates = std::map<std::string, NamedTemplate>;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Reads chat_template of a JSON file: text, or a list of {"name": ..., "template": ...}.
NamedTemplates templates_in(const JsonField& root) {
  NamedTemplates found;
  const auto field = root.find("chat_template");
  if (!field) return found;
  if (field->is_string()) {
    found["default"] = {field->text(), field->where()};
  } else if (field->is_array()) {
    for (const JsonField& item : field->items())
      found[item.at("name").text()] = {item.at("template").text(), item.at("template").where()};
  } else if (field->is_object()) {
    for (const auto& [name, item] : field->members()) found[name] = {item.text(), item.where()};
  } else {
    field->refuse("text, or a list of named templates");
  }
  return found;
}

NamedTemplates templates_in_files(TokenizerFolder& files, const fs::path& folder) {
  NamedTemplates found;
  const auto add = [&](const std::string& name, const fs::path& path) {
    found[name] = {read_text_file(path, "the chat template"), path.string()};
  };
  if (files.has(kTemplateFile)) add("default", folder / kTemplateFile);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / kMoreTemplates, ignored))
    if (entry.path().extension() == ".jinja") add(entry.path().stem().string(), entry.path());
  return found;
}

// Reads templates from files, else from tokenizer_config.json, else from the chat_template.json of
// processors.
NamedTemplates templates_of(TokenizerFolder& files, const fs::path& folder) {
  NamedTemplates found = templates_in_files(files, folder);
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    if (!found.empty()) break;
    if (const auto json = files.read_json_if_present(name)) found = templates_in(json->root());
  }
  return found;
}

std::map<std::string, std::string> special_tokens_of(TokenizerFolder& files) {
  std::map<std::string, std::string> tokens;
  const SpecialTokenFiles special(files);
  for (const char* role :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (const auto token = special.find(role)) tokens[role] = token->token.content;
  return tokens;
}

std::vector<std::string> names_of(const NamedTemplates& templates) {
  std::vector<std::string> names;
  for (const auto& [name, named] : templates) names.push_back(name);
  return names;
}

}  // namespace

std::map<std::string, std::string> files_of(const ChatTemplate& chat_template) {
  std::map<std::string, std::string> files = {{kTemplateFile, chat_template.source()}};
  if (const std::string* const with_tools = chat_template.source_with_tools())
    files[std::string(kMoreTemplates) + "/tool_use.jinja"] = *with_tools;
  return files;
}

std::optional<ChatTemplate> find_chat_template(const fs::path& folder, const std::string& choice) {
  TokenizerFolder files(folder);
  const auto tokens = special_tokens_of(files);
  const auto make = [&](const NamedTemplate& named) {
    return ChatTemplate(named.source, named.label, tokens);
  };

  const NamedTemplates own = templates_of(files, folder);
  if (!choice.empty()) {
    if (const auto named = own.find(choice); named != own.end()) return make(named->second);
    if (const char* builtin = builtin_chat_template(choice))
      return make({builtin, "chat_template=" + choice});
    if (is_file(choice)) return make({read_text_file(choice, "chat_template"), choice});
    auto known = builtin_chat_templates();
    for (const std::string& name : names_of(own)) known.push_back(name);
    throw UserError(fmt::format("chat_template={}: no such file or template; expected a file, or one of {}",
                                choice, fmt::join(known, ", ")));
  }
  if (own.empty()) return std::nullopt;
  const auto standard = own.find("default"), with_tools = own.find("tool_use");
  if (standard == own.end())
    throw UserError(fmt::format("{}: several chat templates and no default; set chat_template to one of {}",
                                folder.string(), fmt::join(names_of(own), ", ")));
  ChatTemplate found = make(standard->second);
  if (with_tools != own.end()) found.use_with_tools(make(with_tools->second));
  return found;
}

}  // namespace dpo::text
