// Puts files into a repository of the hub, in one commit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hub/upload.h"

namespace dpo::hub {

struct PushOptions {
  bool is_private = false;         // never push to a repository that is not
  bool replaces_model = false;     // also one that dpo did not push
  bool replaces_any_card = false;  // also a README.md that is not as it was generated
  std::string summary;             // of the commit
  // About a README.md: whether dpo generated it, and whether it is still as it was generated.
  std::function<bool(const std::string&)> is_generated, is_unchanged;
};

struct Pushed {
  Commit commit;          // the new one, or the newest one if nothing has changed
  std::size_t files = 0;  // in the commit
  std::size_t removed = 0;
  std::int64_t sent = 0;  // bytes of large files
};

// Creates the repository and the branch if they are missing, uploads what the hub does not have, and commits
// it. Weights of an earlier model (model*.safetensors) are removed. If this is interrupted, calling it again
// sends the rest. It is a UserError if the branch has a model that dpo did not push, offline, and without a
// token that may write.
Pushed push(const Repository& repository, std::vector<LocalFile> files, const PushOptions& options,
            const Listener& listener);

}  // namespace dpo::hub
