// Parts of the schema in files of their own.
#pragma once

#include <vector>

#include "config/field.h"

namespace dpo::config {

std::vector<Field> data_fields();  // data.*, dataset_paths.*
std::vector<Field> loss_fields();  // loss.*

}  // namespace dpo::config
