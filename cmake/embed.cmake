# Writes OUTPUT, a C++ source file that defines embedded_files() of HEADER in NAMESPACE: the paths below FOLDER and the
# texts of FILES.
set(source "// Written by embed.cmake.
#include \"${HEADER}\"

#include <array>

namespace ${NAMESPACE} {

using namespace std::literals;

std::span<const std::pair<std::string_view, std::string_view>> embedded_files() {
  static constexpr auto kFiles = std::to_array<std::pair<std::string_view, std::string_view>>({
")
foreach(file IN LISTS FILES)
  file(READ "${FOLDER}/${file}" text)
  string(APPEND source "    {\"${file}\"sv, R\"~~~~(${text})~~~~\"sv},\n")
endforeach()
string(APPEND source "  });
  return kFiles;
}

}  // namespace ${NAMESPACE}
")
file(WRITE "${OUTPUT}" "${source}")
