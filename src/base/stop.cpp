#include "base/stop.h"

#include <csignal>
#include <cstdlib>
#include <initializer_list>

namespace dpo {
namespace {

constexpr int kExitStopped = 143;

volatile std::sig_atomic_t requested = 0;  // written by the handler: there is no other way to be told

void remember(int) {
  if (requested != 0) std::_Exit(kExitStopped);
  requested = 1;
}

}  // namespace

void stop_in_order() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, remember);
}

bool stop_requested() { return requested != 0; }

}  // namespace dpo
