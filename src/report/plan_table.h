#pragma once

#include <nlohmann/json_fwd.hpp>

#include "report/metric_log.h"
#include "report/page.h"

namespace dpo::report {

// Compares the predictions in plan.json with the measurements in metrics.jsonl. A row is left out if either
// value is unknown, or if it is about the whole run and the run has not finished.
Table plan_table(const nlohmann::json& plan, const MetricLog& log, bool finished);

}  // namespace dpo::report
