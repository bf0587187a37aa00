// Loops on all cores, with a time at which they end.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace vkfuse::reference {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/// Thrown where a deadline has passed; what is exported returns an error instead.
struct DeadlinePassed {};

inline void check_deadline(const Deadline& deadline) {
  if (deadline && std::chrono::steady_clock::now() > *deadline) throw DeadlinePassed{};
}

/// Calls work(begin, end) for runs of `grain` of `count` elements, on all cores where the loop takes `ns_each`
/// nanoseconds per element and that is long enough to start threads for. The first exception is thrown again when all
/// have ended.
template <typename Work>
void parallel_for(std::int64_t count, std::int64_t grain, double ns_each, const Deadline& deadline, const Work& work) {
  constexpr double kWorthAThread = 1e6;  // nanoseconds
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto loop = [&] {
    try {
      for (std::int64_t begin = next.fetch_add(grain); begin < count; begin = next.fetch_add(grain)) {
        check_deadline(deadline);
        work(begin, std::min(count, begin + grain));
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
      next = count;
    }
  };
  const auto cores = static_cast<double>(std::max(1U, std::thread::hardware_concurrency()));
  const double useful = std::min(
      {cores, static_cast<double>(count) * ns_each / kWorthAThread, static_cast<double>((count + grain - 1) / grain)});
  std::vector<std::thread> helpers;
  try {
    for (int i = 1; i < static_cast<int>(useful); ++i) helpers.emplace_back(loop);
  } catch (const std::system_error&) {
    // The threads that were started, and this one, do all of it.
  }
  loop();
  for (std::thread& helper : helpers) helper.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace vkfuse::reference
