// Limits on the time that the host takes are those of a release build on one quiet machine: elsewhere they are wider.
#pragma once

namespace vkfuse::test {

/// How many times slower the library may be than a release build: VKFUSE_TEST_SLOWNESS, which scripts/coverage.sh and
/// scripts/deep.sh set for builds that count lines or check each access; else 1.
double build_slowness();

/// Microseconds of wall-clock time that a fixed piece of the standard library's work takes now: texts and a tree of
/// them, as planning does. What is timed beside it may be compared with it, as both take longer where others work too.
double reference_work();

/// How many times longer than on the machine where limits in seconds were set the same may take now: what the mean of
/// some reference_work() shows, of this build on this machine beside whatever else it does, and at least
/// build_slowness(). Machines differ by three, and one by two from hour to hour. To be called right after what is
/// timed.
double slowness();

}  // namespace vkfuse::test
