#include "http/http.h"

namespace dpo::http {

std::string Answer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

Upload upload_of(std::string_view body) {
  return {.size = static_cast<std::int64_t>(body.size()),
          .read = [body](std::int64_t offset, char* into, std::size_t size) {
            return body.copy(into, size, static_cast<std::size_t>(offset));
          }};
}

}  // namespace dpo::http
