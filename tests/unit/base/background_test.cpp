// Threads in the background: they end with their object, and a child of a fork does not wait for its parent's.
#include "base/background.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/forked.hpp"

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

TEST(BackgroundThread, OfTheParentIsNotWaitedForByAChild) {
  auto* thread = new BackgroundThread;
  ASSERT_TRUE(thread->start(until_stopped));
  const OwnProcess parent;
  const pid_t child = ::fork();
  if (child == 0) {
    thread->end();
    std::_Exit(parent.is_this() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(parent.is_this());
  delete thread;
}

}  // namespace
}  // namespace vkfuse
