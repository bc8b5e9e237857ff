#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/user_path.h"
#include "commands/commands.h"
#include "commands/report.h"
#include "config/compose.h"
#include "config/text.h"
#include "model/tables/adapter_config.h"
#include "serve/serve.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;

struct ServeArguments {
  std::vector<std::string> folders;
  std::string host = "127.0.0.1";
  int port = 8765;
  std::string token;
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
  command
      .add_option("--token", arguments.token,
                  "token that viewers need (default: none for this machine only, else one is made)")
      ->type_name("TEXT");
  command
      .add_option("--device", arguments.device,
                  "device on which models answer prompts (default: a GPU if there is one, else the CPU)")
      ->type_name("auto|cpu|cuda|cuda:N");
  command.footer("The address of the page is printed on stdout; Ctrl-C ends. See docs/serve.md.");
}

// A model as arguments of dpo sample: an adapter with the model that it names. A name after "--" cannot be an
// option.
std::vector<std::string> model_at(const fs::path& folder) {
  if (!is_adapter(folder)) return {"--", folder.string()};
  const fs::path file = folder / kAdapterConfig;
  const std::string base =
      model::parse_adapter_config(read_text_file(file, "the adapter's configuration"), file.string()).base;
  return {"--adapter=" + folder.string(), "--", base};
}

// The model that a run started from.
std::vector<std::string> reference_of(const fs::path& run) {
  config::Request request;
  request.config_file = run / "config.yaml";
  const config::RunConfig config = config::compose(request).values;
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

std::vector<std::string> sample_arguments(const fs::path& run, const serve::Prompt& prompt,
                                          const std::string& device) {
  std::vector<std::string> arguments = {"sample", "--device=" + device, "--prompt=" + prompt.text,
                                        fmt::format("--temperature={}", prompt.temperature),
                                        fmt::format("--max-new-tokens={}", prompt.max_new_tokens)};
  if (prompt.chat) arguments.push_back("--chat");
  const std::vector<std::string> model =
      prompt.side == serve::Side::policy ? policy_of(run) : reference_of(run);
  arguments.insert(arguments.end(), model.begin(), model.end());
  return arguments;
}

int run_serve(const ServeArguments& arguments) {
  if (!serve::is_available())
    throw UserError(
        "this dpo was built without cpp-httplib: install its development files (libcpp-httplib-dev) and "
        "build again; 'dpo report RUN' writes a page that needs no server");
  serve::Settings settings;
  settings.host = arguments.host;
  settings.port = arguments.port;
  settings.token = arguments.token;
  for (const std::string& folder : arguments.folders) {
    std::error_code none;
    if (!fs::is_directory(folder, none))
      throw UserError(fmt::format("'{}' is not a folder", config::shown(folder)));
    settings.folders.emplace_back(folder);
  }
  if (!settings.token.empty())
    serve::check_token(settings.token);
  else if (!serve::is_loopback(settings.host))
    settings.token = serve::make_token();
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
