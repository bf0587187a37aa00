#pragma once

#include <chrono>

#include "vkfuse/timeline.hpp"

namespace vkfuse::parallel {

using Clock = std::chrono::steady_clock;

/// Whether the timeline has reached the value before the deadline. Looks often at first: drivers wake a thread late,
/// and for what another interface signals only every few milliseconds.
Result<bool> wait_until(const Timeline& timeline, std::uint64_t value, Clock::time_point deadline);

/// Sets a timeline from the host when it has reached the value before: exchanges end in the order in which they were
/// begun, whatever carries each. ErrorCode::io at the deadline.
Result<void> signal_in_order(const TimelinePoint& point, Clock::time_point deadline);

}  // namespace vkfuse::parallel
