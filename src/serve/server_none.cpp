// Stubs for builds without cpp-httplib.
#include <stdexcept>

#include "serve/serve.h"

namespace dpo::serve {

bool is_available() { return false; }

void serve(const Settings&, const std::function<void(const std::string&)>&) {
  throw std::logic_error("built without cpp-httplib");
}

}  // namespace dpo::serve
