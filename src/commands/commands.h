// commands contains the command line of dpo. Commands that compute are parsed twice: by dpo, which finds
// wrong arguments without loading LibTorch, and by dpo-engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "commands/command.h"
#include "config/run_config.h"
#include "plan/machine.h"

namespace dpo::commands {

// Arguments of every command that computes with a model.
struct ModelArguments {
  std::string model;
  std::string weights;    // "": those in the model folder
  std::string adapter;    // a folder; "": none
  std::string tokenizer;  // "": the model folder
  std::string device = "auto";
  std::string dtype;  // "": float32 on a CPU, the model's on a GPU
};
void describe(CLI::App& command, ModelArguments& arguments);

// is_adapter returns true if a folder is an adapter (PEFT's or ours) and not a model. kAdapterConfig is the
// file that it looks for.
inline constexpr const char* kAdapterConfig = "adapter_config.json";
bool is_adapter(const std::filesystem::path& folder);

// Settings for rendering conversations as text.
struct ChatArguments {
  std::string chat_template;        // a name or a file; "": the tokenizer's
  std::vector<std::string> kwargs;  // KEY=VALUE
  std::string tools;                // a JSON file; "": none
};
void describe(CLI::App& command, ChatArguments& arguments);

// Returns the settings as keys of a run, for data::ChatTokenizer, without a length limit.
config::RunConfig chat_settings(const ChatArguments& arguments);

// Parses KEY=VALUE arguments of an option. Throws a UserError for another form.
std::map<std::string, std::string> pairs_of(const std::string& option, const std::vector<std::string>& given);

struct TrainArguments {
  config::Request request;
  bool quiet = false;
  bool verbose = false;
  bool json_log = false;
};
void describe(CLI::App& command, TrainArguments& arguments);

struct DemoArguments {
  std::string folder = "dpo-demo";
  std::uint64_t seed = 0;
  bool lora = false;
  bool json = false;
};
void describe(CLI::App& command, DemoArguments& arguments);

struct SampleArguments {
  ModelArguments model;
  bool chat = false;
  std::string system;
  ChatArguments rendering;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::int64_t max_new_tokens = 256;
  bool greedy = false;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::int64_t samples = 1;
  std::vector<std::string> stops;
  std::uint64_t seed = 0;
  std::int64_t batch = 32;
  bool special = false;
  bool json = false;
  bool time = false;
};
void describe(CLI::App& command, SampleArguments& arguments);

struct ScoreArguments {
  ModelArguments model;
  std::string file;
  std::string reference;  // a model; "": no rewards
  double beta = 0.1;
  std::int64_t batch_tokens = 8192;
  std::optional<std::int64_t> max_length, max_prompt_length;
  std::string truncation;            // "": keep_end for conversations, else keep_start
  std::vector<std::string> columns;  // NAME=COLUMN
  ChatArguments rendering;
  bool time = false;
};
void describe(CLI::App& command, ScoreArguments& arguments);

struct ConvertArguments {
  std::string in;
  std::string out;
  std::string config;
  std::string dtype;
  std::uint64_t shard_bytes = kShardBytes;
  bool modelfile = false;
};
void describe(CLI::App& command, ConvertArguments& arguments);

struct MergeArguments {
  std::string model;
  std::string adapter;
  std::string out;
  std::string dtype;
  bool modelfile = false;
};
void describe(CLI::App& command, MergeArguments& arguments);

struct InitArguments {
  std::string config;
  std::string out;
  std::uint64_t seed = 0;
  std::string dtype;
};
void describe(CLI::App& command, InitArguments& arguments);

struct BenchTrainArguments {
  config::Request request;
  std::string as;  // machines whose run is rehearsed, which `machine` has too; "": measures a run here
  plan::MachineRequest machine;
  std::vector<std::int64_t> pairs_per_gpu;  // to rehearse; empty: those of batch_size
  std::int64_t updates = 5;
  bool profile = false;
  bool json = false;
};
void describe(CLI::App& command, BenchTrainArguments& arguments);

struct BenchDeviceArguments {
  std::string output;
  bool json = false;
};
void describe(CLI::App& command, BenchDeviceArguments& arguments);

// Adds --link and --network, and returns both.
std::vector<CLI::Option*> add_links(CLI::App& command, plan::MachineRequest& machine);

inline constexpr const char* kBenchHelp = "measure training speed, or the speed of this machine";

// Commands that do not need LibTorch.
Command cache_command();
Command config_command();
Command data_command();
Command doctor_command();
Command fetch_command();
Command plan_command();
Command push_command();
Command render_command();
Command report_command();
Command serve_command();
Command tokenize_command();
Command track_command();

}  // namespace dpo::commands
