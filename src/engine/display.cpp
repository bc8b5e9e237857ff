#include "engine/display.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/progress_count.h"
#include "base/terminal.h"
#include "commands/fetch.h"
#include "commands/live_line.h"
#include "plan/output.h"
#include "run/metrics.h"

namespace dpo::engine {
namespace {

using train::Event;

// Returns nullptr for events that only people need.
const char* name_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::start: return "start";
    case Event::Kind::update: return "update";
    case Event::Kind::evaluation: return "evaluation";
    case Event::Kind::checkpoint: return "checkpoint";
    case Event::Kind::warning: return "warning";
    case Event::Kind::end: return "end";
    case Event::Kind::message: return nullptr;
  }
  return nullptr;
}

commands::LiveUpdate live_update(const Event& event) {
  const auto value = [&](const char* name) { return run::value_of(event.numbers, name); };
  return {.update = static_cast<std::int64_t>(value("counters/updates")),
          .updates = static_cast<std::int64_t>(value("total_updates")),
          .loss = value("loss/train"),
          .accuracy = value("rewards_train/accuracies"),
          .margin = value("rewards_train/margins"),
          .gradient_norm = value("grad_norm"),
          .learning_rate = value("learning_rate"),
          .examples_per_second = value("examples_per_second"),
          .seconds_left = value("seconds_left")};
}

// Fits a line to the terminal without breaking words. It first narrows the gaps between the columns of
// evaluations.
std::string fitted(std::string line, std::size_t width) {
  if (line.find('\n') != std::string::npos) return line;
  while (columns_of(line) > width && line.find("   ") < line.find("examples"))
    line.erase(line.find("   "), 1);
  if (columns_of(line) <= width) return line;
  const std::size_t indent = std::min(line.find_first_not_of(" *"), line.size());
  return line.substr(0, indent) + wrap_words(std::string_view(line).substr(indent), indent, width);
}

// Returns the line as shown: fitted on a terminal, and with the first word of some kinds in color.
std::string shown(const Event& event) {
  const Terminal& terminal = Terminal::get();
  if (!terminal.can_show_live_line()) return event.line;
  const std::string line = fitted(event.line, terminal.width());
  const char* colour = event.kind == Event::Kind::warning      ? "33"
                       : event.kind == Event::Kind::evaluation ? "36"
                                                               : nullptr;
  if (!colour || !terminal.has_colours()) return line;
  const std::size_t end = std::min(line.find_first_of(" \n"), line.size());
  return fmt::format("\033[{}m{}\033[0m{}", colour, line.substr(0, end), line.substr(end));
}

// Writes whole numbers without a fraction. NaN and infinity become null.
nlohmann::ordered_json number(double value) {
  constexpr double kExact = 1e15;
  if (std::round(value) == value && std::abs(value) < kExact) return std::llround(value);
  return value;
}

void print_json(const Event& event) {
  const char* const name = name_of(event.kind);
  if (!name || (event.kind == Event::Kind::update && event.line.empty())) return;
  const std::chrono::duration<double> time = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json line = {{"event", name}, {"time", time.count()}};
  if (event.kind == Event::Kind::warning) line["message"] = event.line.substr(event.line.find(' ') + 1);
  for (const auto& [key, text] : event.texts) line[key] = text;
  for (const auto& [key, value] : event.numbers) line[key] = number(value);
  if (is_terminal(STDOUT_FILENO)) Terminal::get().clear();  // stdout may be the same terminal
  const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const WaitingForOthers waiting;
  std::fwrite(text.data(), 1, text.size(), stdout);  // a run continues if this fails; see run_program
  std::fflush(stdout);
}

}  // namespace

void RunDisplay::show_plan(const plan::Plan& plan, const plan::Inputs& in, const run::Start& start) const {
  Terminal& terminal = Terminal::get();
  if (options_.json_log)
    for (const plan::Finding& finding : plan.findings)
      if (finding.verdict == plan::Verdict::warning)
        print_json({.kind = Event::Kind::warning,
                    .line = "warning: " + finding.message,
                    .texts = {{"id", finding.id}}});
  if (options_.verbose || !plan.passes())
    return terminal.print(plan::to_text(plan, in, terminal.has_colours()));
  if (!options_.banner) return;
  constexpr std::size_t kWidest = 100;
  const plan::TextStyle style{terminal.has_colours(), terminal.can_show_live_line()
                                                          ? std::min(terminal.width(), kWidest)
                                                          : std::string::npos};
  const std::string warnings = plan::warnings_to_text(plan, style);
  if (options_.quiet) return write_stderr(warnings);
  const plan::RunPaths paths{start.folder.string(), start.checkpoint.value_or("").string()};
  terminal.print(plan::to_banner(plan, in, paths, style) + warnings);
}

train::Listener RunDisplay::listener() {
  return {[this](const Event& event) { report(event); },
          [this](const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit) {
            if (!options_.quiet) progress_.show(what, done, all, unit);
          }};
}

hub::Listener RunDisplay::downloads() const {
  return options_.quiet ? hub::Listener{} : commands::shown_downloads();
}

void RunDisplay::report(const Event& event) {
  Terminal& terminal = Terminal::get();
  if (options_.json_log) print_json(event);
  if (event.kind == Event::Kind::end) terminal.clear();
  if (event.line.empty() && event.kind != Event::Kind::update) return;
  const bool is_urgent = event.kind == Event::Kind::warning || event.kind == Event::Kind::end;
  if (options_.quiet && !is_urgent) return;
  if (event.kind == Event::Kind::update) return show_update(event);
  if (event.kind == Event::Kind::start && options_.banner && !options_.verbose &&
      terminal.can_show_live_line())
    return;  // the banner names the folder
  terminal.print(shown(event));
}

void RunDisplay::show_update(const Event& event) {
  Terminal& terminal = Terminal::get();
  if (terminal.can_show_live_line())
    return terminal.show(
        [&](std::size_t columns) { return commands::live_line(live_update(event), columns); });
  const Clock::time_point now = Clock::now();
  if (event.line.empty() || now - update_printed_ < options_.between_lines) return;
  update_printed_ = now;
  terminal.print(event.line);
}

}  // namespace dpo::engine
