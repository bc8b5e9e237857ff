#include "commands/report.h"

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/output_files.h"
#include "commands/commands.h"
#include "commands/run_facts.h"
#include "config/text.h"
#include "report/chart.h"
#include "report/page.h"
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
  const fs::path run = (folder / "").parent_path().parent_path();  // "sft" for "sft/LATEST" and "sft/LATEST/"
  const bool is_inside = !run.empty() && fs::exists(run / "metrics.jsonl", none);
  throw UserError(fmt::format("'{}' is not the folder of a run: it has no metrics.jsonl{}",
                              config::shown(folder.string()),
                              is_inside ? fmt::format("; try '{}'", config::shown(run.string())) : ""));
}

fs::path whole_path(const fs::path& run) {
  const fs::path whole = fs::absolute(run).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

// Adds folders to the names of runs until names from different folders differ. It adds no more than needed,
// because folders are specific to this machine.
void name_apart(std::vector<report::RunSource>& sources) {
  std::vector<fs::path> left;  // the part of each path that is not in its name
  for (const report::RunSource& source : sources) left.push_back(whole_path(source.folder).parent_path());
  const auto same_name = [&](std::size_t i) {
    return [&, i](std::size_t j) { return sources[i].name == sources[j].name && left[i] != left[j]; };
  };
  const auto all = std::views::iota(std::size_t{0}, sources.size());
  for (bool changed = true; std::exchange(changed, false);) {
    std::vector<std::size_t> unclear;
    for (const std::size_t i : all)
      if (left[i].has_filename() && std::ranges::any_of(all, same_name(i))) unclear.push_back(i);
    for (const std::size_t i : unclear) {
      sources[i].name = (left[i].filename() / sources[i].name).string();
      left[i] = left[i].parent_path();
      changed = true;
    }
  }
}

int run_report(const ReportArguments& arguments) {
  const std::vector<fs::path> runs(arguments.runs.begin(), arguments.runs.end());
  if (runs.size() > report::kMostCurves)
    throw UserError(
        fmt::format("{} runs given, but a page compares at most {}", runs.size(), report::kMostCurves));
  for (const fs::path& run : runs) require_run(run);
  const bool one = runs.size() == 1;
  const fs::path file = !arguments.output.empty() ? fs::path(arguments.output)
                        : one                     ? runs.front() / kReport
                                                  : fs::path("comparison.html");
  check_replaceable(file, report::kPageMark);
  std::vector<report::RunSource> sources;
  for (const fs::path& run : runs) sources.push_back(source_of(run));
  name_apart(sources);
  write_file(file, one ? report::run_page(sources.front()) : report::comparison_page(sources));
  fmt::print("{}\n", file.string());
  return 0;
}

}  // namespace

// Omits the error's message from the page, because it may name folders of this machine.
report::RunSource source_of(const fs::path& run) {
  report::RunSource source{run, whole_path(run).filename().string()};
  try {
    source.facts = read_keys(run, {.exp_name = "NAME"});
  } catch (const UserError&) {
    source.problem = "config.yaml of the run cannot be read: 'dpo config --config RUN/config.yaml' says why.";
  }
  return source;
}

void write_report(const fs::path& run, report::FollowedRun& followed) {
  followed.read();
  write_file(run / kReport, report::run_page(source_of(run), followed));
}

Command report_command() { return make_command<ReportArguments>("report", run_report); }

}  // namespace dpo::commands
