#pragma once

#include <string>

namespace dpo::cli {

// `dpo bench device`: measures, prints, and writes a device file: `output`, or one that plans find by
// themselves.
int run_bench_device(const std::string& output, bool as_json);

}  // namespace dpo::cli
