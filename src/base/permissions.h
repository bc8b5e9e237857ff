#pragma once

#include <sys/types.h>

namespace dpo {

// The permissions that new files and folders of this process do not have. The system tells them only by
// setting others, which threads that make files at the same time would notice: it is asked once.
mode_t permission_mask();

}  // namespace dpo
