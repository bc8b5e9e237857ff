#include <algorithm>
#include <cctype>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quantity.h"
#include "commands/cache_files.h"
#include "commands/commands.h"
#include "commands/help.h"
#include "config/explain.h"
#include "config/text.h"
#include "hub/settings.h"
#include "plan/gather_inputs.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;

struct CacheArguments {
  config::Request request;
  std::vector<std::string> files;
  std::string older_than;
  bool all = false;
  bool remove = false;
  bool json = false;
};

// Converts an age such as "30d" to seconds.
double seconds_of(const std::string& age) {
  constexpr std::pair<char, double> kUnits[] = {{'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400}};
  constexpr std::size_t kMostDigits = 6;
  const std::string digits = age.substr(0, age.size() - !age.empty());
  const bool is_number = !digits.empty() && digits.size() <= kMostDigits &&
                         std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; });
  for (const auto& [letter, seconds] : kUnits)
    if (is_number && age.back() == letter) return std::stod(digits) * seconds;
  throw UserError(fmt::format(
      "--older-than: expected a number and m, h, d or w (minutes, hours, days, weeks) such as 30d, got '{}'",
      age));
}

std::string shown_age(std::time_t then, std::time_t now) {
  return rough_duration(static_cast<double>(std::max<std::time_t>(0, now - then))) + " ago";
}

// Returns true if the argument names this file, by its path or its name in the list.
bool is_named(const CacheFile& file, const std::string& argument) {
  const fs::path given = argument;
  std::error_code none;
  return given.has_parent_path() ? fs::equivalent(given.parent_path(), file.path.parent_path(), none) &&
                                       given.filename() == file.path.filename()
                                 : given == file.path.filename();
}

// Returns the files selected by the arguments: by name, by time since the last use, or all.
std::vector<CacheFile> chosen(const CacheArguments& arguments, const fs::path& folder, std::time_t now) {
  std::vector<CacheFile> files = cache_files_in(folder);
  for (const std::string& argument : arguments.files)
    if (std::ranges::none_of(files, [&](const CacheFile& file) { return is_named(file, argument); }))
      throw UserError(
          fmt::format("{}: not a cache file of dpo in {}; 'dpo cache' lists them, and "
                      "local_dirs=[DIR] chooses another folder",
                      config::shown(argument), folder.string()));
  if (!arguments.files.empty())
    std::erase_if(files, [&](const CacheFile& file) {
      return std::ranges::none_of(arguments.files,
                                  [&](const std::string& argument) { return is_named(file, argument); });
    });
  if (!arguments.older_than.empty()) {
    const double age = seconds_of(arguments.older_than);
    std::erase_if(files, [&](const CacheFile& file) { return static_cast<double>(now - file.used) < age; });
  }
  return files;
}

std::int64_t size_of(const std::vector<CacheFile>& files) {
  std::int64_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes;
  return bytes;
}

std::string total(const std::vector<CacheFile>& files) {
  return fmt::format("{}, {}", plural(std::ssize(files), "file"), file_size(size_of(files)));
}

void print_files(const std::vector<CacheFile>& files, std::time_t now) {
  for (const CacheFile& file : files)
    fmt::print("{}\n  {}, {}, written {}, used {}\n  {}\n", file.path.string(), name_of(file.kind),
               file_size(file.bytes), shown_age(file.written, now), shown_age(file.used, now), file.about);
}

nlohmann::json json_of(const std::vector<CacheFile>& files) {
  const auto time = [](std::time_t at) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(at)); };
  nlohmann::json list = nlohmann::json::array();
  for (const CacheFile& file : files)
    list.push_back({{"file", file.path.string()},
                    {"kind", name_of(file.kind)},
                    {"about", file.about},
                    {"bytes", file.bytes},
                    {"written", time(file.written)},
                    {"used", time(file.used)}});
  return list;
}

int list_files(const CacheArguments& arguments, const fs::path& folder, const std::vector<CacheFile>& files,
               std::time_t now) {
  const fs::path hub = hub::cache_folder();
  const std::int64_t hub_bytes = size_of_folder(hub);
  if (arguments.json) {
    const nlohmann::json all = {{"folder", folder.string()},
                                {"files", json_of(files)},
                                {"bytes", size_of(files)},
                                {"hub", {{"folder", hub.string()}, {"bytes", hub_bytes}}}};
    fmt::print("{}\n", all.dump());
    return 0;
  }
  print_files(files, now);
  fmt::print("{} in {}\n", total(files), folder.string());
  fmt::print(stderr, "models and data sets from the Hugging Face hub: {} in {}, which dpo does not remove\n",
             file_size(hub_bytes), hub.string());
  return 0;
}

int remove_files(const CacheArguments& arguments, const std::vector<CacheFile>& files) {
  if (arguments.files.empty() && arguments.older_than.empty() && !arguments.all)
    throw UserError(
        "--remove: give the files to remove, --older-than AGE, or --all; without --remove, 'dpo cache' lists "
        "what it would remove");
  std::vector<CacheFile> removed;
  bool is_left = false;
  for (const CacheFile& file : files) {
    const std::string why = remove_cache_file(file);
    if (why.empty()) {
      fmt::print("removed {} ({})\n", file.path.string(), file_size(file.bytes));
      removed.push_back(file);
    } else {
      is_left = true;
      print_notes({fmt::format("{} is kept: {}", file.path.string(), why)});
    }
  }
  fmt::print(stderr, "{} removed\n", total(removed));
  return is_left && !arguments.files.empty() ? 1 : 0;
}

int run_cache(CacheArguments arguments) {
  const std::vector<std::string> given = std::exchange(arguments.request.overrides, {});
  for (const std::string& argument : given)
    (argument.find('=') == std::string::npos ? arguments.files : arguments.request.overrides)
        .push_back(argument);
  arguments.request.not_needed = config::required_keys();
  const config::Resolved resolved = config::compose(arguments.request);
  print_notes(resolved.notes);
  const fs::path folder = plan::folder_of_user(resolved.values);
  const std::time_t now = std::time(nullptr);
  const std::vector<CacheFile> files = chosen(arguments, folder, now);
  return arguments.remove ? remove_files(arguments, files) : list_files(arguments, folder, files, now);
}

void describe(CLI::App& command, CacheArguments& arguments) {
  command.description("list cached tokens and reference scores, or remove them");
  add_run_arguments(command, arguments.request,
                    {{"dpo cache                            # list cached files: purpose, size and age",
                      "dpo cache --older-than 30d           # list those not used for 30 days",
                      "dpo cache --older-than 30d --remove  # remove them",
                      "dpo cache local_dirs=[/scratch]      # the caches of runs with this local_dirs"},
                     "A FILE argument chooses a single file. A run recomputes missing files.\nFiles "
                     "that a run is using are kept. See docs/data.md."});
  command.formatter(help_format("[KEY=VALUE ...] [FILE ...]"));
  const auto older = command
                         .add_option("--older-than", arguments.older_than,
                                     "only files that no run has used for this long: 12h, 30d, 8w")
                         ->type_name("AGE");
  const auto remove = command.add_flag("--remove", arguments.remove,
                                       "remove the files that are given, or --older-than, or --all");
  command.add_flag("--all", arguments.all, "with --remove: remove all files")->needs(remove)->excludes(older);
  command.add_flag("--json", arguments.json, "print one JSON object")->excludes(remove);
}

}  // namespace

Command cache_command() { return make_command<CacheArguments>("cache", run_cache); }

}  // namespace dpo::commands
