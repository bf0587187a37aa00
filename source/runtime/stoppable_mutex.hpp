// What one does at a time while others wait for it asleep.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

namespace vkfuse::runtime {

/// Thread-safe. Turns that were taken end before it does.
class StoppableMutex {
 public:
  /// Somebody's turn, until it is destroyed.
  class Lock {
   public:
    explicit Lock(StoppableMutex& of) : of_(&of) {}
    Lock(Lock&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    Lock& operator=(Lock&&) = delete;
    ~Lock() {
      if (of_ != nullptr) of_->pass();
    }

   private:
    StoppableMutex* of_;
  };

  /// Waits until nobody has a turn. Nothing if `stop` was asked for first.
  std::optional<Lock> take(const std::stop_token& stop) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!passed_.wait(lock, stop, [this] { return !taken_; }) || stop.stop_requested()) return std::nullopt;
    taken_ = true;
    return std::optional<Lock>(std::in_place, *this);
  }

 private:
  void pass() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      taken_ = false;
    }
    passed_.notify_all();  // one that is woken may go without a turn, because it was stopped
  }

  std::mutex mutex_;
  std::condition_variable_any passed_;
  bool taken_ = false;
};

}  // namespace vkfuse::runtime
