// Which files of a repository dpo needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hub/answers.h"

namespace dpo::hub {

// What a repository is needed for. The small files of a model (config.json, tokenizer, chat template) are
// downloaded together. An adapter is a model too.
enum class Need { config, tokenizer, weights, data };

// Chooses the data files among all files of a repository.
using ChooseData = std::function<std::vector<std::string>(const std::vector<std::string>& paths)>;

struct Wanted {
  Need need = Need::weights;
  ChooseData choose{};  // with Need::data
};

// Whether a model needs a file besides its weights.
bool is_small_model_file(const std::string& path);

// model.safetensors, model-00001-of-00002.safetensors or their index.
bool is_safetensors_file(const std::string& path);

// The names of the files with a model's weights, in the order in which transformers looks for them:
// safetensors, else PyTorch's, never both; an index comes before its files; else those of an adapter. Empty
// if there are none. `has`: whether a file exists; `read`: the text of an index, "" if it is not there yet.
std::vector<std::string> weight_files(const std::function<bool(const std::string& name)>& has,
                                      const std::function<std::string(const std::string& name)>& read);

// Those files of a list that are wanted; of weights in several files only the index, if `read` has not got
// it.
std::vector<HubFile> needed_files(const std::vector<HubFile>& files, const Wanted& wanted,
                                  const std::function<std::string(const std::string& name)>& read);

}  // namespace dpo::hub
