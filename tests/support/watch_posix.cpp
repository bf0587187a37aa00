#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "support/watch.hpp"

extern "C" {
/// Of the address sanitizer, where there is one: it has handlers of its own for what brings a process down.
void __attribute__((weak)) __sanitizer_set_death_callback(void (*)());
}

namespace vkfuse::test {
namespace {

constexpr int kSignals[] = {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

void (*save_input)() = nullptr;

bool is_ours(int signal) { return __sanitizer_set_death_callback == nullptr || signal == SIGALRM; }

void on_signal(int signal) {
  std::fprintf(stderr, signal == SIGALRM ? "An input took too long.\n" : "An input brought the process down.\n");
  if (save_input != nullptr) save_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

Watch::Watch(void (*save)()) {
  save_input = save;
  for (const int signal : kSignals) {
    if (is_ours(signal)) std::signal(signal, on_signal);
  }
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save);
}

Watch::~Watch() {
  set_alarm(0);
  for (const int signal : kSignals) {
    if (is_ours(signal)) std::signal(signal, SIG_DFL);
  }
}

void set_alarm(unsigned seconds) { ::alarm(seconds); }

}  // namespace vkfuse::test
