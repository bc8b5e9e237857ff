// Stubs for builds without cpp-httplib.
#include "serve/server.h"

#include <stdexcept>

namespace dpo::serve {

bool is_available() { return false; }

void serve(const Settings&, const std::function<void(const std::string&)>&) {
  throw std::logic_error("built without cpp-httplib");
}

}  // namespace dpo::serve
