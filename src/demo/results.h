#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "demo/task.h"
#include "report/metric_log.h"

namespace dpo::demo {

struct Sample {
  std::string reply;
  Verdict verdict = Verdict::garbled;
};

// What a model replied to the held-out requests, one sample each.
struct Stage {
  std::string key;    // in the JSON: init, sft, dpo
  std::string title;  // for people: "before SFT"
  std::vector<Sample> samples;

  double share(Verdict verdict) const;
};

struct Results {
  std::vector<Request> requests;  // the held-out ones
  std::array<Stage, 3> stages;    // before SFT, after SFT, after DPO
  double heldout_accuracy = 0;    // of the rewards, in DPO's last evaluation
  double seconds = 0;
  std::string commands;  // what would do the same by hand
};

// {"heldout_accuracy", "accepted": {"init", "sft", "dpo"}, "seconds"}
std::string to_json(const Results& results);

// The table and the first few samples, for a terminal.
std::string to_text(const Results& results);

// The same with curves, as a page. `sft` and `dpo` are the metrics of the two runs.
std::string to_html(const Results& results, const report::MetricLog& sft, const report::MetricLog& dpo);

}  // namespace dpo::demo
