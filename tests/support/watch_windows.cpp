#include <csignal>
#include <cstdio>

#include "support/watch.hpp"

namespace vkfuse::test {
namespace {

constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGFPE, SIGILL};

void (*save_input)() = nullptr;

void on_signal(int signal) {
  std::fprintf(stderr, "An input brought the process down.\n");
  if (save_input != nullptr) save_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

Watch::Watch(void (*save)()) {
  save_input = save;
  for (const int signal : kSignals) std::signal(signal, on_signal);
}

Watch::~Watch() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

void set_alarm(unsigned) {}

}  // namespace vkfuse::test
