// Work that several threads do together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace vkfuse {

/// Calls `work`, which does not throw, on this thread and on as many more as `items` and the machine are good for;
/// returns when all have returned. Each call takes what is left to do, as the others may never have begun.
template <typename Work>
void work_side_by_side(std::size_t items, const Work& work) {
  const std::size_t most = std::min<std::size_t>(items, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> helpers;
  helpers.reserve(most);  // nothing is thrown once threads run
  try {
    for (std::size_t i = 1; i < most; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads are to be had: those that there are do it.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace vkfuse
