// Work in the background, and the process's end, which both come before drivers take their statics apart.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

namespace vkfuse {

/// A thread that is asked to stop, and waited for, when this object goes or when the process exits (std::exit, or a
/// return from main), whichever is first: drivers' statics, which the work may need, are still there. In a forked
/// child, where there is no such thread, nothing is waited for. start() and the destructor are called by one thread at
/// a time.
class BackgroundThread {
 public:
  BackgroundThread() = default;
  ~BackgroundThread() { end(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// False where no thread is to be had, or the process is exiting already. Called once. `work` does not throw.
  bool start(std::function<void(const std::stop_token&)> work);
  void end();

 private:
  struct Running;
  std::shared_ptr<Running> running_;
};

/// What is to be done when the process exits, after threads in the background have ended and before drivers take
/// themselves apart; no longer once this object is gone.
class AtProcessEnd {
 public:
  explicit AtProcessEnd(std::function<void()> work);
  ~AtProcessEnd();
  AtProcessEnd(const AtProcessEnd&) = delete;
  AtProcessEnd& operator=(const AtProcessEnd&) = delete;
};

/// Called after drivers may have made statics: when a device was opened, when a pipeline was made. Handlers of
/// std::atexit run in the reverse order of their registration, so what ends threads, and tells devices that are still
/// there to leave their drivers alone, is registered again.
void end_before_drivers();
/// Called after each run: the first one of a pipeline may have made statics, too. One load, of others.
void end_before_drivers_of_new_pipelines();

}  // namespace vkfuse
