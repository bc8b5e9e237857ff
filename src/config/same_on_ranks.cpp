#include "config/same_on_ranks.h"

#include "config/print.h"
#include "config/read.h"

namespace dpo::config {
namespace {

// This key names the folders of caches, which may be on each machine's own disk, such as
// local_dirs=[${oc.env:TMPDIR}]. It also determines the run folder, which rank 0 decides.
constexpr const char* kMayDiffer = "local_dirs";

void add_keys(const Node& map, const std::string& prefix, std::map<std::string, std::string>& keys) {
  for (const Node& child : map.children) {
    const std::string key = prefix + child.name;
    if (child.kind == Node::Kind::Map && !child.children.empty())
      add_keys(child, key + ".", keys);
    else if (key != kMayDiffer)
      keys[key] = inline_yaml(child);
  }
}

}  // namespace

std::map<std::string, std::string> same_on_ranks(const RunConfig& config) {
  std::map<std::string, std::string> keys;
  add_keys(write_tree(config), "", keys);
  return keys;
}

}  // namespace dpo::config
