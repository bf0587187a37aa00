#pragma once

#include <chrono>

#include "vkfuse/timeline.hpp"

namespace vkfuse::parallel {

using Clock = std::chrono::steady_clock;

/// Whether the timeline has reached the value before the deadline. Looks often at first: drivers wake a thread late,
/// and for what another interface signals only every few milliseconds.
Result<bool> wait_until(const Timeline& timeline, std::uint64_t value, Clock::time_point deadline);

}  // namespace vkfuse::parallel
