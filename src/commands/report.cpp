#include "commands/report.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/output_files.h"
#include "commands/commands.h"
#include "commands/run_facts.h"
#include "config/text.h"
#include "report/chart.h"
#include "report/run_report.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output;
};

void describe(CLI::App& command, ReportArguments& arguments) {
  command.description("write the report of a run again, or compare runs on one page");
  takes_path(command.add_option("RUN", arguments.runs, "folders of runs"))->required();
  takes_path(command.add_option(
                 "--output", arguments.output,
                 "file to write (default: report.html in the run folder; comparison.html here for several)"))
      ->type_name("FILE");
  command.footer(
      "A run writes its report by itself, at each evaluation and at its end. See docs/reports.md.");
}

void require_run(const fs::path& folder) {
  std::error_code none;
  if (fs::exists(folder / "metrics.jsonl", none)) return;
  throw UserError(fmt::format("'{}' is not the folder of a run: it has no metrics.jsonl",
                              config::shown(folder.string())));
}

std::string folder_name(const fs::path& run) {
  const fs::path whole = fs::absolute(run).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

report::RunSource source_of(const fs::path& run) {
  report::RunSource source{run, folder_name(run)};
  try {
    source.facts = read_keys(run, {.exp_name = "NAME"});
  } catch (const UserError& error) {
    source.problem = fmt::format("config.yaml of the run cannot be read: {}", error.what());
  }
  return source;
}

// Runs in different folders may have the same name.
void name_apart(std::vector<report::RunSource>& sources) {
  std::vector<std::string> names;
  for (const report::RunSource& source : sources) names.push_back(source.name);
  for (report::RunSource& source : sources)
    if (std::ranges::count(names, source.name) > 1) source.name = source.folder.string();
}

int run_report(const ReportArguments& arguments) {
  const std::vector<fs::path> runs(arguments.runs.begin(), arguments.runs.end());
  if (runs.size() > report::kMostCurves)
    throw UserError(
        fmt::format("{} runs given, but a page compares at most {}", runs.size(), report::kMostCurves));
  std::vector<report::RunSource> sources;
  for (const fs::path& run : runs) {
    require_run(run);
    sources.push_back(source_of(run));
  }
  name_apart(sources);
  const bool one = sources.size() == 1;
  const fs::path file = !arguments.output.empty() ? fs::path(arguments.output)
                        : one                     ? runs.front() / kReport
                                                  : fs::path("comparison.html");
  write_file(file, one ? report::run_page(sources.front()) : report::comparison_page(sources));
  fmt::print("{}\n", file.string());
  return 0;
}

}  // namespace

void write_report(const fs::path& run) { write_file(run / kReport, report::run_page(source_of(run))); }

Command report_command() { return make_command<ReportArguments>("report", run_report); }

}  // namespace dpo::commands
