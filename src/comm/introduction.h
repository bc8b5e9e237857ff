#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/group.h"

namespace dpo::comm {

// Describes a rank before a run begins. All fields but the host must be the same on every rank.
struct Introduction {
  std::string host;
  std::string program;                      // its version
  std::string command;                      // what is done, as on the command line
  bool has_gpu = false;                     // it sees one
  std::string problem = {};                 // what is wrong with its configuration
  std::map<std::string, std::string> keys;  // the configuration
};

// Returns the introductions of all ranks, in rank order. A collective call.
std::vector<Introduction> introduce(Group& all, const Introduction& own);

// Returns messages about why the ranks cannot work together: how the first rank that differs from rank 0
// differs, or the problem that all have. Empty if they agree.
std::vector<std::string> disagreements(const std::vector<Introduction>& ranks);

}  // namespace dpo::comm
