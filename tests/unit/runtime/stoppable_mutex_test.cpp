#include "runtime/stoppable_mutex.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace vkfuse::runtime {
namespace {

TEST(StoppableMutex, AreOneAtATime) {
  StoppableMutex turns;
  std::atomic<int> inside = 0, taken = 0;
  bool alone = true;
  {
    std::array<std::jthread, 8> threads;
    for (std::jthread& thread : threads) {
      thread = std::jthread([&](const std::stop_token&) {
        for (int i = 0; i < 200; ++i) {
          const auto turn = turns.take({});
          alone = ++inside == 1 && alone;  // written by whose turn it is
          std::this_thread::yield();
          ++taken;
          --inside;
        }
      });
    }
  }
  EXPECT_TRUE(alone);
  EXPECT_EQ(taken, 1600);
}

TEST(StoppableMutex, AreNotWaitedForByThoseWhoWereStopped) {
  StoppableMutex turns;
  std::atomic<int> got = 0, refused = 0;
  const auto wait = [&](const std::stop_token& stop) {
    const auto turn = turns.take(stop);
    ++(turn ? got : refused);
  };
  std::jthread stays;
  {
    const auto first = turns.take({});
    ASSERT_TRUE(first);
    stays = std::jthread(wait);
    {
      std::jthread goes(wait);
      goes.request_stop();
    }  // joined, while somebody else still has the turn
    EXPECT_EQ(refused, 1);
    EXPECT_EQ(got, 0);
  }
  stays.join();
  EXPECT_EQ(got, 1);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(turns.take(stopped.get_token()));
  EXPECT_TRUE(turns.take({})) << "nothing is taken by who was stopped";
}

}  // namespace
}  // namespace vkfuse::runtime
