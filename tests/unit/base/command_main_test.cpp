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

}  // namespace
}  // namespace vkfuse
