// Selects the files of a repository that dpo needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hub/answers.h"

namespace dpo::hub {

// Purpose of a download. The small files of a model (config.json, tokenizer, chat template) are downloaded
// together. An adapter counts as a model.
enum class Need { config, tokenizer, weights, data };

// Selects the data files among all files of a repository.
using ChooseData = std::function<std::vector<std::string>(const std::vector<std::string>& paths)>;

struct Wanted {
  Need need = Need::weights;
  ChooseData choose{};  // for Need::data
};

// Returns true for a model's files other than weights: configuration, tokenizer, chat templates.
bool is_small_model_file(const std::string& path);

// Returns true for model.safetensors, model-00001-of-00002.safetensors and their index.
bool is_safetensors_file(const std::string& path);

// Returns the names of a model's weight files, in the order in which transformers looks for them:
// safetensors, else PyTorch's (never both), else those of an adapter. An index comes before its files. Empty
// if there are none. `has` tells whether a file exists; `read` returns the text of an index, or "" if it is
// not there yet.
std::vector<std::string> weight_files(const std::function<bool(const std::string& name)>& has,
                                      const std::function<std::string(const std::string& name)>& read);

// Returns the files of a list that are wanted. Of sharded weights only the index is returned until `read` can
// return its text.
std::vector<HubFile> needed_files(const std::vector<HubFile>& files, const Wanted& wanted,
                                  const std::function<std::string(const std::string& name)>& read);

}  // namespace dpo::hub
