#include "hub/needed_files.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/parse_json.h"
#include "base/utf8.h"

namespace dpo::hub {
namespace {

constexpr std::array<std::string_view, 12> kSmallFiles = {"config.json",        "generation_config.json",
                                                          "tokenizer.json",     "tokenizer_config.json",
                                                          "tokenizer.model",    "vocab.json",
                                                          "merges.txt",         "special_tokens_map.json",
                                                          "added_tokens.json",  "chat_template.jinja",
                                                          "chat_template.json", "adapter_config.json"};

// Returns the files that an index of weights lists. Errors in it are reported when the weights are read.
std::set<std::string> files_of_index(const std::string& text) {
  const auto index = parse_json(text);
  std::set<std::string> files;
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) return files;
  for (const auto& [tensor, file] : index["weight_map"].items())
    if (file.is_string() && stays_in_folder(file.get<std::string>())) files.insert(file.get<std::string>());
  return files;
}

}  // namespace

bool is_small_model_file(const std::string& path) {
  const bool named_template = path.starts_with("additional_chat_templates/") && path.ends_with(".jinja");
  return named_template || std::find(kSmallFiles.begin(), kSmallFiles.end(), path) != kSmallFiles.end();
}

bool is_safetensors_file(const std::string& path) {
  if (path == "model.safetensors" || path == "model.safetensors.index.json") return true;
  if (!path.starts_with("model-") || !path.ends_with(".safetensors")) return false;
  const std::string rest = path.substr(6, path.size() - 6 - 12);
  const std::size_t of = rest.find("-of-");
  const auto is_number = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_ascii_digit);
  };
  return of != rest.npos && is_number(std::string_view(rest).substr(0, of)) &&
         is_number(std::string_view(rest).substr(of + 4));
}

std::vector<std::string> weight_files(const std::function<bool(const std::string&)>& has,
                                      const std::function<std::string(const std::string&)>& read) {
  for (const std::string name : {"model.safetensors", "pytorch_model.bin"}) {
    if (has(name)) return {name};
    const std::string index = name + ".index.json";
    if (!has(index)) continue;
    std::vector<std::string> files{index};
    for (const std::string& file : files_of_index(read(index))) files.push_back(file);
    return files;
  }
  for (const std::string name : {"adapter_model.safetensors", "adapter_model.bin"})
    if (has("adapter_config.json") && has(name)) return {name};
  return {};
}

std::vector<HubFile> needed_files(const std::vector<HubFile>& files, const Wanted& wanted,
                                  const std::function<std::string(const std::string&)>& read) {
  const auto find = [&](const std::string& name) {
    return std::find_if(files.begin(), files.end(), [&](const HubFile& file) { return file.path == name; });
  };
  std::vector<HubFile> needed;
  if (wanted.need == Need::data) {
    std::vector<std::string> paths;
    for (const HubFile& file : files) paths.push_back(file.path);
    for (const std::string& path : wanted.choose(paths)) needed.push_back(*find(path));
    return needed;
  }
  for (const HubFile& file : files)
    if (is_small_model_file(file.path)) needed.push_back(file);
  if (wanted.need == Need::weights)
    for (const std::string& name :
         weight_files([&](const std::string& wanted_name) { return find(wanted_name) != files.end(); }, read))
      if (const auto file = find(name); file != files.end()) needed.push_back(*file);
  return needed;
}

}  // namespace dpo::hub
