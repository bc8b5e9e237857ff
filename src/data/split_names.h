// Finds the splits of a data set by its file names.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::data {

// The words for a test split, as in the `datasets` library. The first word that a data set has is used.
inline constexpr std::array<std::string_view, 8> kTestWords = {"test", "testing", "validation", "valid",
                                                               "val",  "dev",     "eval",       "evaluation"};

// Returns whether `word` is a word of the name.
bool has_word(std::string_view name, std::string_view word);

// A data set on the hub: ORG/NAME or ORG/NAME@REVISION, maybe followed by :PART.
struct HubName {
  std::string repository;
  std::string part{};

  static HubName parse(const std::string& name);
};

struct HubFiles {
  std::vector<std::string> train, test;  // if one is empty, the other has both splits
  std::vector<std::string> notes{};
};

// Selects the files of the splits from the data files of a repository. A part is a folder
// (harmless-base/train.jsonl) or the rest of a split's name (train_prefs.jsonl and test_prefs.jsonl:
// "prefs"). If there are several parts to train on, the part whose splits are just called train and test is
// used; without one, a UserError lists the parts. If some files name a split, files that name none are not
// used, as in the `datasets` library.
HubFiles choose_files(const HubName& name, const std::vector<std::string>& paths);

}  // namespace dpo::data
