#pragma once

#include <string>
#include <vector>

#include "comm/group.h"

namespace dpo::comm {

// The text of one rank, for all.
std::string broadcast_text(Group& group, const std::string& text, int root);

// Every rank's text, in their order.
std::vector<std::string> gather_texts(Group& group, const std::string& own);

}  // namespace dpo::comm
