// What takes long to find out, and is the same for all.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace vkfuse::runtime {

/// A value that is made on first demand and kept; where that fails, it is tried again at the next demand. Thread-safe.
/// Threads that ask at the same time may each make a value: the first is the one that all get.
template <typename T>
class FirstDemand {
 public:
  template <typename Make>
  Result<T> get(Make&& make) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (kept_) return *kept_;
    }
    Result<T> made = std::forward<Make>(make)();  // not locked: one value may need another
    if (!made) return made;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!kept_) kept_.emplace(*std::move(made));
    return *kept_;
  }

 private:
  std::mutex mutex_;
  std::optional<T> kept_;
};

}  // namespace vkfuse::runtime
