// When a wait looks whether a submission has ended.
#include <gtest/gtest.h>

#include <algorithm>

#include "vulkan/submission.hpp"

namespace vkfuse::vulkan::test {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// What a wait of something that ends after `end` takes longer than that, where each nap takes 55 us more than it is
/// asked for, and how long it looks rather than sleeps. It begins with the submission.
struct Wait {
  nanoseconds late, looked;
};

Wait wait_for_end(nanoseconds end, nanoseconds expected) {
  constexpr microseconds look(1), more(55);
  nanoseconds at{}, looked{};
  while (at < end) {
    const nanoseconds nap = nap_between_polls(at, at, expected);
    if (nap > nanoseconds::zero()) at += nap + more;
    at += look;
    looked += look;
  }
  return {at - end, looked};
}

TEST(Wait, SeesAnExpectedEndAtOnce) {
  for (int us = 100; us < 150'000; us = us * 21 / 20) {
    const nanoseconds end = microseconds(us);
    const Wait as_last_time = wait_for_end(end, end);
    EXPECT_LE(as_last_time.late, microseconds(1)) << us;
    EXPECT_LE(as_last_time.looked, std::max<nanoseconds>(end / 8, microseconds(300))) << us;
    EXPECT_LE(wait_for_end(end, end * 24 / 25).late, microseconds(1)) << us << ": longer than last time";
    EXPECT_LE(wait_for_end(end, end * 25 / 24).late, microseconds(1)) << us << ": shorter than last time";
  }
}

TEST(Wait, SeesAnyEndSoon) {
  for (int us = 100; us < 150'000; us = us * 21 / 20) {
    const nanoseconds end = microseconds(us);
    for (const nanoseconds expected : {nanoseconds::zero(), end / 20, end / 2, 2 * end, 20 * end}) {
      const Wait wait = wait_for_end(end, expected);
      EXPECT_LE(wait.late, end / 60 + microseconds(80)) << us << ", " << expected.count();
      EXPECT_LE(wait.looked, std::max<nanoseconds>(end / 8 + microseconds(50), microseconds(400)))
          << us << ", " << expected.count();
    }
  }
}

}  // namespace
}  // namespace vkfuse::vulkan::test
