// Puts files into a repository of the hub, in one commit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hub/upload.h"

namespace dpo::hub {

struct PushOptions {
  bool is_private = false;  // if the repository is created
  std::string summary;      // of the commit
  // README.md on the hub is replaced only if it contains this text, or if this is empty.
  std::string card_mark;
};

struct Pushed {
  Commit commit;          // the new one, or the newest one if nothing has changed
  std::size_t files = 0;  // in the commit
  std::int64_t sent = 0;  // bytes of large files
};

// Creates the repository and the branch if they are missing, uploads what the hub does not have, and commits
// it. Weights of an earlier model (other safetensors files) are removed. If this is interrupted, calling it
// again sends the rest. Without a token that may write, or offline, it is a UserError.
Pushed push(const Repository& repository, std::vector<LocalFile> files, const PushOptions& options,
            const Listener& listener);

}  // namespace dpo::hub
