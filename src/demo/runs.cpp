#include "demo/runs.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/user_path.h"
#include "base/utf8.h"

namespace dpo::demo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = ".dpo-demo";  // marks a folder that a demonstration created

// Returns a path as the value of an override, quoted if needed.
std::string value_of(const fs::path& path) {
  constexpr std::string_view kPunctuation = "/-._";
  const std::string text = path.string();
  const bool plain = std::ranges::all_of(text, [&](char c) {
    return is_ascii_letter(c) || is_ascii_digit(c) || kPunctuation.find(c) != kPunctuation.npos;
  });
  return plain ? text : fmt::format("'{}'", text);
}

std::vector<std::string> common_arguments(const fs::path& folder, const char* loss) {
  return {"model=blank_model",
          "model.name_or_path=" + value_of(folder / "model"),
          fmt::format("loss={}", loss),
          fmt::format("exp_name=demo_{}", loss),
          fmt::format("local_dirs=[{}]", value_of(folder / "cache")),
          "local_run_dir=" + value_of(folder / loss),
          "batch_size=32",
          "eval_batch_size=64",
          "max_length=64",
          "max_prompt_length=40",
          "sample_during_eval=false",
          "minimum_log_interval_secs=0"};
}

std::vector<std::string> operator+(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

void claim_folder(const fs::path& folder) {
  const std::string name = folder.string();
  if (name.find_first_of("'\"\\$\n") != name.npos)
    throw UserError(
        fmt::format("--dir {}: expected a name without quotes, backslashes and dollar signs", name));
  std::error_code failed;
  const bool ours = fs::exists(folder / kMarker, failed);
  if (fs::exists(folder, failed) && !ours && !fs::is_empty(folder, failed))
    throw UserError(fmt::format(
        "{} exists and was not created by 'dpo demo'; choose another folder: dpo demo --dir DIR", name));
  for (const char* made :
       {"conversations", "preferences", "blank", "model", "cache", "sft", "dpo", "report.html"})
    if (ours) fs::remove_all(folder / made, failed);
  fs::create_directories(folder, failed);
  try {
    write_file(folder / kMarker,
               "written by 'dpo demo', which replaces its earlier results in this folder\n");
  } catch (const UserError&) {
    throw UserError(
        fmt::format("{}: cannot be created or written; choose another folder: dpo demo --dir DIR", name));
  }
}

std::vector<std::string> sft_arguments(const fs::path& folder) {
  return common_arguments(folder, "sft") +
         std::vector<std::string>{fmt::format("datasets=[{}]", value_of(folder / "conversations")),
                                  "n_epochs=2",
                                  "eval_every=1600",
                                  "optimizer=AdamW",
                                  "lr=2e-3",
                                  "lr_schedule=cosine",
                                  "warmup_steps=20"};
}

std::vector<std::string> dpo_arguments(const fs::path& folder, bool lora) {
  const std::vector<std::string> common =
      common_arguments(folder, "dpo") +
      std::vector<std::string>{fmt::format("datasets=[{}]", value_of(folder / "preferences")),
                               "model.archive=" + value_of(folder / "sft" / kLatest),
                               "loss.beta=0.1",
                               "eval_every=320",
                               "lr_schedule=linear",
                               "warmup_steps=10"};
  // Low-rank changes are not enough for such a small model, so its head is trained too. The likelihood of the
  // chosen replies (loss.alpha) keeps Adam from producing garbage.
  if (lora)
    return common + std::vector<std::string>{"adapter=lora", "adapter.modules_to_save=[embed_out]",
                                             "optimizer=AdamW", "lr=1e-3", "loss.alpha=1"};
  // SGD is used because Adam and RMSprop move every weight by about the learning rate, including those of
  // tokens that play no part in a preference. A model this small then generates garbage.
  return common + std::vector<std::string>{"optimizer=SGD", "lr=0.2"};
}

}  // namespace dpo::demo
