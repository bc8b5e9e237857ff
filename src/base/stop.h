#pragma once

namespace dpo {

// From now on SIGINT, SIGTERM and SIGUSR1 do not end the process at once but are remembered, so that the work
// under way can end in order. Another one, two seconds later or more, ends the process: one request may come
// as several signals.
void stop_in_order();

// Whether such a signal came.
bool stop_requested();

}  // namespace dpo
