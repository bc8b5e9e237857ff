#pragma once

#include <nlohmann/json_fwd.hpp>

#include "report/metric_log.h"
#include "report/page.h"

namespace dpo::report {

// What plan.json predicted and what metrics.jsonl measured. Rows for which one of the two is not known are
// left out, and those about the whole run unless it has finished.
Table plan_table(const nlohmann::json& plan, const MetricLog& log, bool finished);

}  // namespace dpo::report
