// Whether what a process had still serves it: threads, and what drivers keep, survive neither a fork nor the process's
// end.
#pragma once

#include <atomic>

namespace vkfuse {

namespace detail {
inline constexpr unsigned kExiting = 1u << 31;
inline std::atomic<unsigned> epoch{0};  ///< forks since the program's first process, and whether this one is exiting
}  // namespace detail

/// From the first call on, forks are counted; never on Windows.
unsigned process_epoch();
/// Drivers are about to take themselves apart: from now on no OwnProcess is this one.
void note_exiting();
/// Whether that is so, rather than that the process was forked.
inline bool is_exiting() { return (detail::epoch.load(std::memory_order_relaxed) & detail::kExiting) != 0; }

/// The process that something was made in. Cheap to ask: one load.
class OwnProcess {
 public:
  OwnProcess() : made_in_(process_epoch()) {}
  [[nodiscard]] bool is_this() const { return made_in_ == detail::epoch.load(std::memory_order_relaxed); }

 private:
  unsigned made_in_;
};

}  // namespace vkfuse
