// Precompiled headers of LibTorch and the standard library. Add only headers that many files need, because
// every file that uses LibTorch loads all of them.
#pragma once

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
