// What escapes from a command is a sentence and status 2.
#include "base/command_main.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace vkfuse {
namespace {

[[noreturn]] void end_with(const std::function<int()>& command) { std::exit(command_main("command", command)); }

TEST(CommandMainDeathTest, WhatEscapesIsASentence) {
  EXPECT_EXIT(end_with([]() -> int { throw std::bad_alloc(); }), testing::ExitedWithCode(2),
              "^command: The host has no memory left.\n$");
  EXPECT_EXIT(end_with([]() -> int { throw std::length_error("vector"); }), testing::ExitedWithCode(2),
              "^command: The host cannot hold a container this large.\n$");
  EXPECT_EXIT(end_with([]() -> int { throw std::runtime_error("what it says"); }), testing::ExitedWithCode(2),
              "^command: A defect in vkfuse: 'what it says' was thrown.\n$");
  EXPECT_EXIT(end_with([]() -> int { throw 3; }), testing::ExitedWithCode(2),
              "^command: A defect in vkfuse: what is no exception of the standard was thrown.\n$");
  EXPECT_EXIT(end_with([] { return 7; }), testing::ExitedWithCode(7), "^$");
}

TEST(CommandMainDeathTest, OutputThatDoesNotArriveIsStatusOne) {
  const auto to_full = [] {
    if (std::freopen("/dev/full", "w", stdout) == nullptr) std::exit(9);
    end_with([] {
      std::printf("text\n");
      return 0;
    });
  };
  EXPECT_EXIT(to_full(), testing::ExitedWithCode(1), "^command: Standard output could not be written");
}

TEST(CommandMainDeathTest, ControlCharactersAreEscaped) {
#ifdef __GLIBC__
  EXPECT_EXIT(end_with([] {
                std::fputs("a\x1b[2J\x7f\xc2\x9b\xc3\xa4\t\n", stderr);
                return 0;
              }),
              testing::ExitedWithCode(0),
              R"(^a\\x1b\[2J\\x7f\\x9b)"
              "\xc3\xa4\t\n$");
#endif
}

}  // namespace
}  // namespace vkfuse
