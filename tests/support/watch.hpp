// What a fuzzer does when an input brings the process down, or takes too long.
#pragma once

namespace vkfuse::test {

/// While it lives, `save` is called before the process dies by a signal, by an alarm too.
class Watch {
 public:
  explicit Watch(void (*save)());
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
};

/// An alarm in so many seconds, from now on; 0 for none. Without effect where there are no alarms.
void set_alarm(unsigned seconds);

}  // namespace vkfuse::test
