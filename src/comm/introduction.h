#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/group.h"

namespace dpo::comm {

// Describes a rank before a run begins. All fields except `host` must be the same on every rank.
struct Introduction {
  std::string host;
  std::string program = {};                 // program version
  std::string command = {};                 // the command, as on the command line
  bool has_gpu = false;                     // true if it sees a GPU
  std::string problem = {};                 // the problem with its configuration, or ""
  std::map<std::string, std::string> keys;  // the configuration
};

// Returns the introductions of all ranks, in rank order. A collective call.
std::vector<Introduction> introduce(Group& all, const Introduction& own);

// Returns messages that explain why the ranks cannot work together: how the first rank that differs from rank
// 0 differs, or the problem that all of them have. Returns nothing if they agree.
std::vector<std::string> disagreements(const std::vector<Introduction>& ranks);

}  // namespace dpo::comm
