#include "base/forked.hpp"

#include "os/system.hpp"

namespace vkfuse {

unsigned process_epoch() {
  static const bool registered = [] {
    os::on_fork([] { detail::epoch.fetch_add(1, std::memory_order_relaxed); });
    return true;
  }();
  static_cast<void>(registered);
  return detail::epoch.load(std::memory_order_relaxed);
}

void note_exiting() { detail::epoch.fetch_or(detail::kExiting, std::memory_order_relaxed); }

}  // namespace vkfuse
