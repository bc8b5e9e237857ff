#pragma once

namespace dpo {

// From now on SIGINT, SIGTERM and SIGUSR1 do not end the process at once but are remembered, so that the work
// under way can end in order. A second signal ends the process.
void stop_in_order();

// Whether such a signal came.
bool stop_requested();

}  // namespace dpo
