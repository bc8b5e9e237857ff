// Logs lines from stdin to MLflow, as a run does:
//   history STEP LOSS       before 'open': a row from before the run was resumed
//   open
//   update STEP LOSS, evaluation STEP LOSS, samples STEP TEXT
//   sleep SECONDS
//   finish STATUS
// After each line it prints the notes for the user, and then "done".
//
// Usage: mlflow_probe RUN MILLISECONDS (limit of 'finish' to wait for the server). The environment holds
// MLFLOW_TRACKING_URI and similar variables.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/stop.h"
#include "track/mlflow.h"

namespace {

using namespace dpo::track;
using std::chrono::milliseconds;

Settings settings_of(const std::string& folder, const char* finish) {
  Settings settings{.folder = folder, .config = R"({"lr": 0.001, "loss": {"name": "dpo", "beta": 0.1}})"};
  settings.mlflow = mlflow_settings(std::nullopt, std::nullopt, "tiny");
  settings.mlflow->interval = milliseconds(20);
  settings.mlflow->retry = settings.mlflow->longest_retry = milliseconds(100);
  settings.mlflow->finish = milliseconds(std::atol(finish));
  return settings;
}

Row update(std::int64_t step, double loss) {
  return {step, false, {{"loss/train", loss}, {"counters/examples", static_cast<double>(step)}}};
}

Row evaluation(std::int64_t step, double loss) {
  return {step, true, {{"loss/eval", loss}, {"counters/examples", static_cast<double>(step)}}};
}

void obey(const std::string& line, const Settings& settings, std::vector<Row>& history, Trackers& trackers) {
  std::istringstream words(line);
  std::string verb, text;
  double number = 0;
  words >> verb >> number >> text;
  const double loss = std::strtod(text.c_str(), nullptr);
  const auto step = static_cast<std::int64_t>(number);
  if (verb == "history") history.push_back(update(step, loss));
  if (verb == "open")
    trackers = Trackers(settings, [&](std::int64_t first, const std::function<void(const Row&)>& use) {
      for (const Row& row : history)
        if (row.step >= first) use(row);
    });
  if (verb == "update") trackers.add(update(step, loss));
  if (verb == "evaluation") trackers.add(evaluation(step, loss));
  if (verb == "samples") trackers.add_samples(step, std::vector<SampleText>{{"prompt", text, std::nullopt}});
  if (verb == "sleep") std::this_thread::sleep_for(std::chrono::duration<double>(number));
  if (verb == "finish") trackers.finish(static_cast<int>(number));
}

}  // namespace

int main(int, char** argv) try {
  dpo::handle_stop_signals();
  const Settings settings = settings_of(argv[1], argv[2]);
  std::vector<Row> history;
  Trackers trackers;
  for (std::string line; std::getline(std::cin, line);) {
    obey(line, settings, history, trackers);
    for (const std::string& note : trackers.notes()) std::cout << "note: " << note << "\n";
    std::cout << "done" << std::endl;
  }
  return 0;
} catch (const dpo::UserError& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
