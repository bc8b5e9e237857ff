#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/secret.h"
#include "base/user_path.h"
#include "commands/commands.h"
#include "commands/report.h"
#include "commands/run_facts.h"
#include "config/text.h"
#include "model/spec/adapter_config.h"
#include "serve/server.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;

struct ServeArguments {
  std::vector<std::string> folders;
  std::string host = "127.0.0.1";
  int port = 8765;
  std::string token;  // "true", or the value after an equals sign
  std::string token_file;
  std::string device = "auto";
};

void describe(CLI::App& command, ServeArguments& arguments) {
  command.description("show runs on a live page: curves as they grow, examples, samples, prompts to try");
  takes_path(command.add_option("RUNS", arguments.folders, "folders of runs, or folders that contain some"))
      ->required();
  command
      .add_option("--host", arguments.host,
                  "address to listen on (default: 127.0.0.1, for this machine only)")
      ->type_name("ADDRESS");
  command.add_option("--port", arguments.port, "port to listen on (default: 8765; 0: any that is free)")
      ->type_name("N")
      ->check(CLI::Range(0, 65535).description(""));
  CLI::Option* const made =
      command.add_flag("--token", arguments.token,
                       "generate a token that viewers need (default if other machines can connect)");
  takes_path(command.add_option(
                 "--token-file", arguments.token_file,
                 "file with the token that viewers need, which only you can read (also: the environment "
                 "variable DPO_SERVE_TOKEN has the token)"))
      ->type_name("FILE")
      ->excludes(made);
  command
      .add_option("--device", arguments.device,
                  "device on which models answer prompts (default: a GPU if there is one, else the CPU)")
      ->type_name("auto|cpu|cuda|cuda:N");
  command.footer("The address of the page is printed on stdout; Ctrl-C stops the server. See docs/serve.md.");
}

// Returns a model as arguments of dpo sample: a folder, or an adapter with the model that it names. A name
// after "--" cannot be taken for an option.
std::vector<std::string> model_at(const fs::path& folder) {
  if (!is_adapter(folder)) return {"--", folder.string()};
  const fs::path file = folder / kAdapterConfig;
  const std::string base =
      model::parse_adapter_config(read_text_file(file, "the adapter's configuration"), file.string()).base;
  return {"--adapter=" + folder.string(), "--", base};
}

// Returns the model that a run started from.
std::vector<std::string> reference_of(const fs::path& run) {
  const config::RunConfig config = read_run_config(run).values;
  const auto& model = config.model;
  std::error_code none;
  const bool is_folder = model.archive && fs::is_directory(*model.archive, none);
  std::vector<std::string> arguments;
  if (model.archive && !is_folder) arguments.push_back("--weights=" + *model.archive);
  if (model.tokenizer_name_or_path) arguments.push_back("--tokenizer=" + *model.tokenizer_name_or_path);
  const std::vector<std::string> found =
      is_folder ? model_at(*model.archive) : std::vector<std::string>{"--", model.name_or_path};
  arguments.insert(arguments.end(), found.begin(), found.end());
  return arguments;
}

std::vector<std::string> policy_of(const fs::path& run) {
  std::error_code none;
  if (!fs::exists(run / kLatest, none)) throw UserError("the run has no checkpoint yet");
  return model_at(run / kLatest);
}

// Returns the chat arguments: the template that a run was trained with, which its initial model may lack, and
// its variables.
std::vector<std::string> chat_of(const fs::path& run) {
  std::vector<std::string> arguments = {"--chat"};
  const fs::path file = run / kLatest / "chat_template.jinja";
  std::error_code none;
  if (fs::exists(file, none)) arguments.push_back("--chat-template=" + file.string());
  for (const auto& [name, value] : read_run_config(run).values.chat_template_kwargs)
    arguments.push_back(fmt::format("--template-kwargs={}={}", name, value));
  return arguments;
}

std::vector<std::string> sample_arguments(const fs::path& run, const serve::Prompt& prompt,
                                          const std::string& device) {
  std::vector<std::string> arguments = {"sample", "--device=" + device, "--prompts=-",
                                        fmt::format("--temperature={}", prompt.temperature),
                                        fmt::format("--max-new-tokens={}", prompt.max_new_tokens)};
  const std::vector<std::string> model =
      prompt.side == serve::Side::policy ? policy_of(run) : reference_of(run);
  if (prompt.chat)
    for (std::string& argument : chat_of(run)) arguments.push_back(std::move(argument));
  arguments.insert(arguments.end(), model.begin(), model.end());
  return arguments;
}

// Reads the token from a file that other users cannot read. A token on the command line would be visible with
// ps.
std::string token_in(const std::string& file) {
  std::error_code none;
  constexpr fs::perms kOthers = fs::perms::group_read | fs::perms::others_read;
  const fs::perms found = fs::status(file, none).permissions();
  if (!none && (found & kOthers) != fs::perms::none)
    throw UserError(
        fmt::format("--token-file {0}: other users can read it: 'chmod 600 {0}' first, and then write a "
                    "new token into it",
                    config::shown(file)));
  std::string token = read_text_file(file, "the token", 1000);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  serve::check_token(token, "--token-file");
  return token;
}

constexpr const char* kNoValue =
    "--token takes no value, since other users of this machine could read it there: put your token into a "
    "file for --token-file, or into DPO_SERVE_TOKEN";

// Returns the token, or "" if viewers need none.
std::string token_of(const ServeArguments& arguments) {
  constexpr const char* kVariable = "DPO_SERVE_TOKEN";
  if (!arguments.token_file.empty()) return token_in(arguments.token_file);
  if (const char* const value = std::getenv(kVariable); value && *value && arguments.token.empty()) {
    serve::check_token(value, kVariable);
    return value;
  }
  if (!arguments.token.empty() && arguments.token != "true") throw UserError(kNoValue);
  return !arguments.token.empty() || !serve::is_loopback(arguments.host) ? make_token() : "";
}

int run_serve(const ServeArguments& arguments) {
  if (!serve::is_available())
    throw UserError(
        "this dpo was built without cpp-httplib: install its development files (libcpp-httplib-dev) and "
        "build again; 'dpo report RUN' writes a page that needs no server");
  serve::Settings settings;
  settings.host = arguments.host;
  settings.port = arguments.port;
  for (const std::string& folder : arguments.folders) {
    std::error_code none;
    if (!fs::is_directory(folder, none))
      throw UserError(fmt::format("'{}' is not a folder{}", config::shown(folder),
                                  arguments.token.empty() ? "" : fmt::format("; {}", kNoValue)));
    settings.folders.emplace_back(folder);
  }
  settings.token = token_of(arguments);
  settings.describe = [](const serve::Run& run) {
    report::RunSource source = source_of(run.folder);
    source.name = run.name;
    return source;
  };
  settings.sample = [&](const serve::Run& run, const serve::Prompt& prompt) {
    return sample_arguments(run.folder, prompt, arguments.device);
  };
  serve::serve(settings, [](const std::string& address) {
    fmt::print("{}\n", address);
    std::fflush(stdout);
  });
  return 0;
}

}  // namespace

Command serve_command() { return make_command<ServeArguments>("serve", run_serve); }

}  // namespace dpo::commands
