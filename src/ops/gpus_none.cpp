#include "ops/devices.h"

namespace dpo {

bool has_cuda_part() { return false; }

std::vector<Gpu> list_gpus() { return {}; }

}  // namespace dpo
