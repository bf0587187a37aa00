// Standard output that is full, and names that would steer a terminal.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/command_main.hpp"

namespace vkfuse {
namespace {

/// Of a program by itself: streams stay replaced.
[[noreturn]] void print_and_end(const std::function<int()>& command) { std::exit(command_main("command", command)); }

TEST(CommandMainDeathTest, OutputThatDoesNotArriveIsStatusOne) {
  const auto to_full = [] {
    if (std::freopen("/dev/full", "w", stdout) == nullptr) std::exit(9);
    print_and_end([] {
      std::printf("text\n");
      return 0;
    });
  };
  EXPECT_EXIT(to_full(), testing::ExitedWithCode(1), "^command: Standard output could not be written");
}

TEST(CommandMainDeathTest, ControlCharactersAreEscaped) {
  EXPECT_EXIT(print_and_end([] {
                std::fputs("a\x1b[2J\x7f\xc2\x9b\xc3\xa4\t\n", stderr);
                return 0;
              }),
              testing::ExitedWithCode(0),
              R"(^a\\x1b\[2J\\x7f\\x9b)"
              "\xc3\xa4\t\n$");
}

}  // namespace
}  // namespace vkfuse
