// What most files that use LibTorch include. Keep it to what many need: every file pays for all of it.
#pragma once

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
