#include "config/resumed_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/user_path.h"
#include "config/interpolate.h"

namespace dpo::config {
namespace {

namespace fs = std::filesystem;

void keep_as_text(Node& node) {
  for (Node& child : node.children) keep_as_text(child);
  if (node.kind == Node::Kind::Text) node.text = escape_interpolations(node.text);
}

bool is_folder_of(const Node& local_run_dir, const fs::path& run) {
  std::error_code none;
  return local_run_dir.kind == Node::Kind::Text &&
         fs::weakly_canonical(expand_home(local_run_dir.text), none) == fs::weakly_canonical(run, none);
}

}  // namespace

std::optional<Document> configuration_of(const std::string& resume, const ConfigFiles& files) {
  if (resume == "auto") return std::nullopt;
  const fs::path asked = expand_home(resume);
  require_run_folder(asked);
  fs::path run = canonical_in_run(asked);
  if (run.filename().string().starts_with("step-")) run = run.parent_path();
  std::error_code none;
  if (!fs::is_regular_file(run / kRunConfigFile, none)) return std::nullopt;
  Document document = files.file(run / kRunConfigFile);
  std::erase_if(document.values.children, [&](const Node& key) {
    return key.name == "resume" || key.name == "overwrite" ||
           (key.name == "local_run_dir" && !is_folder_of(key, run));
  });
  keep_interpolations(document.values);
  keep_as_text(document.values);
  return document;
}

void require_run_folder(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw UserError(
        fmt::format("resume={}: no such folder; give a run folder, one of its step-N, or resume=auto for the "
                    "newest run of exp_name",
                    folder.string()));
}

}  // namespace dpo::config
