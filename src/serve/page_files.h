#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace dpo::serve {

// The files of src/serve/web, path and text; written by cmake/embed.cmake.
std::span<const std::pair<std::string_view, std::string_view>> embedded_files();

}  // namespace dpo::serve
