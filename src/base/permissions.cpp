#include "base/permissions.h"

#include <sys/stat.h>

namespace dpo {

mode_t permission_mask() {
  static const mode_t mask = [] {
    const mode_t found = umask(0);
    umask(found);
    return found;
  }();
  return mask;
}

}  // namespace dpo
