// Declares the parts of the schema that are in separate files.
#pragma once

#include <vector>

#include "config/field.h"

namespace dpo::config {

std::vector<Field> data_fields();  // data.*, dataset_paths.*
std::vector<Field> loss_fields();  // loss.*

}  // namespace dpo::config
