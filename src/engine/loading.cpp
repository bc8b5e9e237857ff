#include "engine/loading.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/quantity.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "checkpoint/adapter.h"
#include "checkpoint/read_tensors.h"
#include "commands/fetch.h"
#include "commands/progress.h"
#include "data/end_of_turn.h"
#include "ops/devices.h"
#include "plan/device.h"

namespace dpo::engine {
namespace {

namespace fs = std::filesystem;

// Returns the path of a model's config.json; its other files are next to it.
fs::path config_of(const std::string& name) {
  std::error_code none;
  return fs::is_regular_file(name, none) ? fs::path(name) : checkpoint::model_folder(name) / "config.json";
}

at::ScalarType dtype_of(const commands::ModelArguments& arguments, at::Device device) {
  if (!arguments.dtype.empty()) return scalar_type_named(arguments.dtype);
  const bool bf16 =
      device.is_cuda() && plan::supports_bf16(list_gpus().at(static_cast<std::size_t>(device.index())));
  return bf16 ? checkpoint::configured_dtype(arguments.model) : at::kFloat;
}

// Returns the "eos_token_id" of a JSON file, or nothing if the file or the key is missing.
std::vector<text::Token> eos_of(const fs::path& file) {
  std::error_code none;
  if (!fs::exists(file, none)) return {};
  return text::eos_ids(read_text_file(file, "the model's tokens"));
}

}  // namespace

checkpoint::ProgressCallback shown_progress(const std::string& what) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLong{1};
  const auto line = std::make_shared<commands::ProgressLine>();
  const Clock::time_point start = Clock::now();
  return [=](std::int64_t done, std::int64_t all) {
    if (stop_requested()) throw Stopped();
    if (Clock::now() - start >= kLong) line->show(what, done, all, "bytes");
  };
}

at::ScalarType scalar_type_named(const std::string& name) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    if (checkpoint::name_of_scalar(type) == name) return type;
  throw UserError(fmt::format("unknown dtype '{}', expected float32, bfloat16 or float16", name));
}

std::string summary_of(const checkpoint::LoadedModel& model) {
  const std::int64_t count = model.table.count();
  const std::int64_t bytes = count * static_cast<std::int64_t>(c10::elementSize(model.weights.dtype()));
  return fmt::format("{}, {} parameters, {}, {}", model::info_of(model.config.shape.family).name,
                     with_commas(count), checkpoint::name_of_scalar(model.weights.dtype()), file_size(bytes));
}

void print_weight_notes(const checkpoint::LoadedModel& model) {
  const auto of_config = static_cast<std::ptrdiff_t>(model.config.settings.notes.size());
  commands::print_notes({model.notes.begin() + of_config, model.notes.end()});
}

void add_answer_ends(checkpoint::LoadedModel& model, const fs::path& tokenizer) {
  std::string problem;
  const auto ends = data::answer_ends(tokenizer, problem);
  if (!problem.empty())
    commands::print_notes({fmt::format("{} is unchanged, since it is not known how an answer ends: {}",
                                       text::kGenerationConfig, problem)});
  if (!ends) return;
  const auto found = model.other_files.find(text::kGenerationConfig);
  const std::string before = found == model.other_files.end() ? "" : found->second;
  std::string after = text::with_ends(before, model.config_json, *ends);
  if (after == before) return;
  if (text::eos_ids(after) != text::eos_ids(before))
    commands::print_notes(
        {fmt::format("{}: eos_token_id is [{}] now, so that generation stops at the end of "
                     "a turn",
                     text::kGenerationConfig, fmt::join(text::eos_ids(after), ", "))});
  model.other_files[text::kGenerationConfig] = std::move(after);
}

void fetch_models(const commands::ModelArguments& arguments) {
  commands::fetch_model(arguments.model, arguments.weights.empty() ? hub::Need::weights : hub::Need::config);
  commands::fetch_model(arguments.tokenizer.empty() ? arguments.model : arguments.tokenizer,
                        hub::Need::tokenizer);
  if (!arguments.adapter.empty())
    find_adapter(arguments.adapter, arguments.weights.empty() ? arguments.model : arguments.weights);
}

fs::path find_adapter(const std::string& adapter, const std::string& model) {
  commands::fetch_model(adapter, hub::Need::weights);
  fs::path folder = checkpoint::adapter_folder(adapter);
  const std::string base = checkpoint::read_adapter_config(folder).base;
  const std::string note = checkpoint::check_base(folder, base, model, "MODEL");
  if (!note.empty()) commands::print_notes({note});
  return folder;
}

text::Tokenizer load_tokenizer(const commands::ModelArguments& arguments) {
  if (!arguments.tokenizer.empty())
    return text::Tokenizer::load(checkpoint::model_folder(arguments.tokenizer));
  if (!arguments.adapter.empty())
    if (const fs::path folder = checkpoint::adapter_folder(arguments.adapter);
        checkpoint::has_tokenizer(folder))
      return text::Tokenizer::load(folder);
  return text::Tokenizer::load(config_of(arguments.model).parent_path());
}

at::Device device_named(const std::string& name) {
  const std::size_t gpus = list_gpus().size();
  const std::string& obstacle = hardware::find_gpus().obstacle;
  if (name == "auto" && !obstacle.empty())
    write_stderr(fmt::format("warning: the GPU is not used: {}\n", obstacle));
  if (name == "cpu" || (name == "auto" && gpus == 0)) return at::kCPU;
  if (name == "auto") return {at::kCUDA, 0};
  std::size_t index = 0;
  const char* const end = name.data() + name.size();
  if (name != "cuda") {
    constexpr std::string_view kPrefix = "cuda:";
    const char* const digits = name.data() + std::min(kPrefix.size(), name.size());
    const auto [rest, error] = std::from_chars(digits, end, index);
    if (!name.starts_with(kPrefix) || error != std::errc() || rest != end)
      throw UserError(fmt::format("--device {}: expected auto, cpu, cuda or cuda:N", name));
  }
  if (!obstacle.empty()) throw UserError(fmt::format("--device {}: {}; or use --device cpu", name, obstacle));
  if (index >= gpus)
    throw UserError(fmt::format("--device {}: this machine has {}, numbered from 0 (see 'dpo doctor')", name,
                                plural(gpus, "GPU")));
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

ReadyModel load_ready_model(const commands::ModelArguments& arguments) {
  const at::Device device = device_named(arguments.device);
  const at::ScalarType dtype = dtype_of(arguments, device);
  at::globalContext().setAllowTF32CuBLAS(false);  // computes float32 in full precision
  std::optional<fs::path> weights;
  if (!arguments.weights.empty()) weights = arguments.weights;
  checkpoint::LoadedModel loaded =
      checkpoint::load_model(arguments.model, dtype, device, weights, shown_progress("reading"));
  commands::print_notes(loaded.notes);
  write_stderr(fmt::format("{}: {}, on {}\n", arguments.weights.empty() ? arguments.model : arguments.weights,
                           summary_of(loaded), device.str()));
  if (!arguments.adapter.empty()) {
    const fs::path folder = checkpoint::adapter_folder(arguments.adapter);
    loaded.weights =
        model::with_adapter(loaded.weights, checkpoint::load_adapter(folder, loaded.table, dtype, device));
    write_stderr(fmt::format("with the adapter {}\n", arguments.adapter));
  }
  return {model::make_model(loaded.config), std::move(loaded.weights)};
}

model::ModelConfig read_config(const commands::ModelArguments& arguments) {
  const fs::path file = config_of(arguments.model);
  return model::parse_model_config(read_text_file(file, "the model's configuration"), file.string());
}

std::vector<text::Token> end_tokens(const commands::ModelArguments& arguments,
                                    const text::Tokenizer& tokenizer) {
  const fs::path config = config_of(arguments.model);
  std::vector<text::Token> ids = eos_of(config.parent_path() / text::kGenerationConfig);
  if (ids.empty()) ids = eos_of(config);
  if (!arguments.adapter.empty())
    for (const text::Token id :
         eos_of(checkpoint::adapter_folder(arguments.adapter) / text::kGenerationConfig))
      ids.push_back(id);
  if (const auto eos = tokenizer.eos()) ids.push_back(*eos);
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

}  // namespace dpo::engine
