#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "demo/task.h"
#include "report/metric_log.h"

namespace dpo::demo {

struct JudgedReply {
  std::string text;
  Judgement judgement = Judgement::garbled;
};

// A model's replies to the held-out requests, one for each.
struct Stage {
  std::string key;    // in JSON: init, sft, dpo
  std::string title;  // display name, such as "before SFT"
  std::vector<JudgedReply> replies;

  double share(Judgement judgement) const;
};

struct Results {
  std::vector<Request> requests;   // held out
  std::array<Stage, 3> stages;     // before SFT, after SFT, after DPO
  double heldout_accuracy = 0;     // reward accuracy of DPO's last evaluation
  std::int64_t heldout_pairs = 0;  // number of pairs behind heldout_accuracy
  double seconds = 0;
  std::string commands;  // commands that repeat the demonstration
};

// Returns {"heldout_accuracy", "accepted": {"init", "sft", "dpo"}, "seconds"}.
std::string to_json(const Results& results);

// Returns the table and a few samples, for a terminal.
std::string to_text(const Results& results);

// Returns the results with curves as an HTML page. `sft` and `dpo` are the metrics of the two runs.
std::string to_html(const Results& results, const report::MetricLog& sft, const report::MetricLog& dpo);

}  // namespace dpo::demo
