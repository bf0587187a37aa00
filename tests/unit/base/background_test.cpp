// Threads in the background: they end with their object.
#include "base/background.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace vkfuse {
namespace {

void until_stopped(const std::stop_token& stop) {
  while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(BackgroundThread, EndsBeforeItsObjectDoes) {
  std::atomic<bool> ended = false;
  {
    BackgroundThread thread;
    ASSERT_TRUE(thread.start([&](const std::stop_token& stop) {
      until_stopped(stop);
      ended = true;
    }));
    EXPECT_FALSE(ended);
  }
  EXPECT_TRUE(ended);
  const BackgroundThread never;  // was not started
}

}  // namespace
}  // namespace vkfuse
