#include "interrupt.hpp"

#include <csignal>

namespace vkfuse::bench {

namespace {
// The one global: a signal handler can reach nothing else.
volatile std::sig_atomic_t caught = 0;

void note(int number) {
  caught = 1;
  std::signal(number, SIG_DFL);
}
}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
}

bool interrupted() { return caught != 0; }

}  // namespace vkfuse::bench
