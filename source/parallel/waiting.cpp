#include "parallel/waiting.hpp"

#include <algorithm>
#include <thread>

#include "base/error.hpp"

namespace vkfuse::parallel {

namespace {

/// For so long a thread only lets others go first, then it sleeps between two looks.
constexpr std::chrono::milliseconds kEager{2};
constexpr std::chrono::microseconds kNap{50};

}  // namespace

Clock::time_point deadline_after(std::chrono::milliseconds timeout) {
  return Clock::now() + std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

Result<bool> wait_until(const Timeline& timeline, std::uint64_t value, Clock::time_point deadline) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    const Clock::time_point now = Clock::now();
    VKF_TRY(reached, timeline.value());
    if (reached >= value) return true;
    if (now >= deadline) return false;
    if (now - begin < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

Result<void> wait_for(const TimelinePoint& point) {
  VKF_TRY(is_reached, wait_until(point.timeline, point.value, Clock::time_point::max()));
  check(is_reached, "a wait without an end has ended");
  return {};
}

Result<void> signal_in_order(const TimelinePoint& point, Clock::time_point deadline) {
  VKF_TRY(is_next, wait_until(point.timeline, point.value - 1, deadline));
  if (is_next) return point.timeline.signal(point.value);
  return make_error(ErrorCode::io, "An exchange before number {} has not ended until the timeout.", point.value);
}

}  // namespace vkfuse::parallel
