#include "engine/claim_folder.h"

#include <fmt/format.h>

namespace dpo::engine {

std::optional<run::FolderClaim> claim_folder(run::Start& start, const config::RunConfig& config,
                                             const train::Listener& listener, comm::Group& all) {
  std::optional<run::FolderClaim> claim;
  if (all.rank() == 0) {
    claim.emplace(run::claim_folder(start, config));
    if (claim->path() != start.folder)
      listener.say(fmt::format("note: another run has started in the same second; this one writes to {}",
                               claim->path().string()));
    if (!claim->warning().empty()) listener.warn(claim->warning());
    start.folder = claim->path();
  }
  start.folder = comm::broadcast_text(all, start.folder.string(), 0);
  return claim;
}

}  // namespace dpo::engine
