#include "base/forked.hpp"

#ifndef _WIN32
#include <pthread.h>
#endif

namespace vkfuse {

unsigned process_epoch() {
#ifndef _WIN32
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { detail::epoch.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
#endif
  return detail::epoch.load(std::memory_order_relaxed);
}

void note_exiting() { detail::epoch.fetch_or(detail::kExiting, std::memory_order_relaxed); }

}  // namespace vkfuse
