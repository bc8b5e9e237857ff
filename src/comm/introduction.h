#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/group.h"

namespace dpo::comm {

// What a rank says of itself before a run begins. All but the host must be the same on every rank.
struct Introduction {
  std::string host;
  std::string program;                      // its version
  std::string command;                      // what is done, as on the command line
  bool has_gpu = false;                     // it sees one
  std::string problem = {};                 // what is wrong with its configuration
  std::map<std::string, std::string> keys;  // the configuration
};

// Those of all ranks, in rank order. A collective call.
std::vector<Introduction> introduce(Group& all, const Introduction& own);

// What keeps the ranks from working together, one message each: how the first rank that differs from rank 0
// does, or the problem that all have. Empty if they agree.
std::vector<std::string> disagreements(const std::vector<Introduction>& ranks);

}  // namespace dpo::comm
