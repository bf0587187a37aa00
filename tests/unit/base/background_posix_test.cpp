// Threads in the background of a process that forks: a child does not wait for its parent's.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/background.hpp"
#include "base/forked.hpp"

namespace vkfuse {
namespace {

TEST(BackgroundThread, OfTheParentIsNotWaitedForByAChild) {
  auto* thread = new BackgroundThread;
  ASSERT_TRUE(thread->start([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }));
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
