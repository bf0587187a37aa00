#include "base/background.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/forked.hpp"
#include "os/system.hpp"

namespace vkfuse {

struct BackgroundThread::Running {
  std::mutex mutex;  ///< the object's end and the process's may come together
  std::jthread thread;
  std::jthread
      keeper;  ///< keeps our handler the last one that was registered, while the work has a driver register its own
  OwnProcess process;

  void end() {
    if (!process.is_this() && !is_exiting()) {  // the thread is the parent's, and so may be who holds the mutex
      if (thread.joinable()) thread.detach();
      if (keeper.joinable()) keeper.detach();
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    if (!thread.joinable()) return;
    keeper = {};
    thread.request_stop();
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();  // the work itself called std::exit, or let go of the last handle
    } else {
      thread.join();
    }
  }
};

namespace {

using Clock = std::chrono::steady_clock;

/// Never destroyed: it is asked while statics are.
struct Registry {
  std::mutex mutex;
  std::vector<std::function<void()>> live;  ///< ends a thread, if that is still there
  bool exiting = false;
  std::optional<Clock::time_point> registered;  ///< the handler, for the last time

  std::mutex ending;  ///< guards the rest, and is held while it is called
  std::map<const AtProcessEnd*, std::function<void()>> ends;
  OwnProcess process;
};

Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

std::atomic<bool> new_pipelines = false;  ///< since the last run

void end_threads() {
  std::vector<std::function<void()>> live;
  {
    const std::lock_guard<std::mutex> lock(registry().mutex);
    registry().exiting = true;
    live.swap(registry().live);
  }
  for (const std::function<void()>& end : live) end();
}

void at_exit() {
  end_threads();
  if (registry().process.is_this()) {
    const std::lock_guard<std::mutex> lock(registry().ending);
    for (const auto& end : registry().ends) end.second();
    registry().ends.clear();
  }
  note_exiting();
}

/// Destructors of the exiting thread's own objects run before any handler, even before those that a driver registers
/// while a thread in the background has it compile. Of other threads nobody knows whether they or the process ends.
struct EndOfMain {
  ~EndOfMain() {
    if (os::is_main_thread()) end_threads();
  }
};

void watch_end_of_main() {
  static thread_local EndOfMain watch;
  static_cast<void>(&watch);
}

}  // namespace

AtProcessEnd::AtProcessEnd(std::function<void()> work) {
  if (!registry().process.is_this()) return;
  const std::lock_guard<std::mutex> lock(registry().ending);
  registry().ends.emplace(this, std::move(work));
}

AtProcessEnd::~AtProcessEnd() {
  if (!registry().process.is_this()) return;  // of a child, whose lock another thread may hold for ever
  const std::lock_guard<std::mutex> lock(registry().ending);
  registry().ends.erase(this);
}

void end_before_drivers() {
  new_pipelines.store(true, std::memory_order_relaxed);
  watch_end_of_main();
  const std::lock_guard<std::mutex> lock(registry().mutex);
  // A handler takes memory: of a thousand pipelines in a moment one will do.
  constexpr auto kMoment = std::chrono::milliseconds(5);
  const Clock::time_point now = Clock::now();
  if (registry().exiting || (registry().registered && now - *registry().registered < kMoment)) return;
  if (std::atexit(at_exit) == 0) registry().registered = now;
}

void end_before_drivers_of_new_pipelines() {
  if (!new_pipelines.load(std::memory_order_relaxed) || !new_pipelines.exchange(false)) return;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  if (!registry().exiting) static_cast<void>(std::atexit(at_exit));
}

namespace {

/// Until it is asked to stop: where another thread than main's calls std::exit, handlers are all that there is, and
/// what a driver registers after ours is destroyed before. A moment of such is left; handlers take 32 bytes each.
void keep_last(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::lock_guard<std::mutex> lock(registry().mutex);
    if (registry().exiting || std::atexit(at_exit) != 0) return;
  }
}

}  // namespace

bool BackgroundThread::start(std::function<void(const std::stop_token&)> work) {
  watch_end_of_main();
  const auto running = std::make_shared<Running>();  // goes after the lock, which its keeper takes
  const std::lock_guard<std::mutex> lock(registry().mutex);
  if (registry().exiting || std::atexit(at_exit) != 0) return false;
  try {
    running->keeper = std::jthread(keep_last);
    // The keeper goes with the work.
    running->thread = std::jthread(
        [work = std::move(work), keeper = running->keeper.get_stop_source()](const std::stop_token& stop) mutable {
          work(stop);
          keeper.request_stop();
        });
  } catch (const std::system_error&) {
    return false;
  }
  registry().live.emplace_back([there = std::weak_ptr<Running>(running)] {
    if (const auto one = there.lock()) one->end();
  });
  running_ = running;
  return true;
}

void BackgroundThread::end() {
  if (running_ != nullptr) running_->end();
}

}  // namespace vkfuse
