// Waits of the host, with a deadline and without.
#pragma once

#include <chrono>

#include "vkfuse/timeline.hpp"

namespace vkfuse::parallel {

using Clock = std::chrono::steady_clock;

/// A timeout is as long as somebody likes, and the clock's range is not.
Clock::time_point deadline_after(std::chrono::milliseconds timeout);

/// Whether the timeline has reached the value before the deadline. Looks often at first: drivers wake a thread late,
/// and for what another interface signals only every few milliseconds.
Result<bool> wait_until(const Timeline& timeline, std::uint64_t value, Clock::time_point deadline);

/// Until this rank has computed what it computes, which takes as long as it takes.
Result<void> wait_for(const TimelinePoint& point);

/// Sets a timeline from the host when it has reached the value before: exchanges end in the order in which they were
/// begun, whatever carries each. ErrorCode::io at the deadline.
Result<void> signal_in_order(const TimelinePoint& point, Clock::time_point deadline);

}  // namespace vkfuse::parallel
