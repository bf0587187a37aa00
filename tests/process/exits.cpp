// Ends in the way that its arguments say, with kernels being measured in the background, or with work on the device.
//   usage: exits HOW MICROSECONDS      HOW: see kWays; it happens so long after the background's first run has ended
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "vkfuse/executable.hpp"
#include "vkfuse/ops.hpp"
#include "vkfuse/stream.hpp"

namespace {

using namespace vkfuse;

constexpr std::int64_t kRows = 64, kColumns = 256;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "exits: %s\n", what);
  std::_Exit(3);
}

template <typename T>
T must(Result<T> result) {
  if (!result) fail(result.error().text().c_str());
  return *std::move(result);
}

struct Work {
  Device device;
  Executable program;
  std::vector<float> x = std::vector<float>(kRows * kColumns, 0.5F);
};

Work begin(CompileOptions options) {
  const Device device = must(Device::open());
  const Tensor x = Tensor::input("x", DType::f32, {kRows, kColumns});
  Work work{device, must(compile(device, {exp(x) * 2.0, x.sum({0})}, options))};
  must(work.program.run({{"x", work.x}}));
  return work;
}

CompileOptions in_background() {
  CompileOptions options;
  options.tune = Tune::background;
  options.tune_ms = 60'000;
  return options;
}

std::optional<Work> kept;                                            // destroyed with the other statics
Work* const leaked = static_cast<Work*>(std::malloc(sizeof(Work)));  // never

void wait_for(long microseconds) { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); }

/// Of what the child does with the parent's device: 0 if each is refused in a sentence about the fork.
int use_in_child(const Work& work) {
  const auto is_refused = [](const Error& error) { return error.text().find("forked") != std::string::npos; };
  if (const auto run = work.program.run({{"x", work.x}}); run || !is_refused(run.error())) return 4;
  if (const auto buffer = work.device.allocate(1 << 20); buffer || !is_refused(buffer.error())) return 5;
  if (const auto device = Device::open(); device || !is_refused(device.error())) return 6;
  const Tensor x = Tensor::input("x", DType::f32, {8});
  if (const auto program = compile(work.device, {x + 1.0}); program || !is_refused(program.error())) return 7;
  return 0;
}

int status_of(pid_t child) {
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) fail("there is no child");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run(const char* how, long microseconds) {
  const auto is = [&](const char* name) { return std::strcmp(how, name) == 0; };
  if (is("return")) {  // the handle goes first, and waits
    const Work work = begin(in_background());
    wait_for(microseconds);
    return 0;
  }
  if (is("exit")) {  // no destructor of a local runs
    const Work work = begin(in_background());
    wait_for(microseconds);
    std::exit(0);
  }
  if (is("static")) {
    kept = begin(in_background());
    wait_for(microseconds);
    return 0;
  }
  if (is("leak")) {
    new (leaked) Work(begin(in_background()));
    wait_for(microseconds);
    return 0;
  }
  if (is("several")) {
    for (int i = 0; i < 3; ++i) new Work(begin(in_background()));
    kept = begin(in_background());
    wait_for(microseconds);
    return 0;
  }
  if (is("thread")) {  // another thread ends the process
    kept = begin(in_background());
    std::thread([&] {
      wait_for(microseconds);
      std::exit(0);
    }).join();
    return 0;
  }
  if (is("callback")) {  // the search itself does
    CompileOptions options = in_background();
    options.on_tune = [](const TuneProgress&) { std::exit(0); };
    new (leaked) Work(begin(options));
    wait_for(60'000'000);
    return 1;  // it never did
  }
  if (is("quick")) {
    kept = begin(in_background());
    wait_for(microseconds);
    std::quick_exit(0);
  }
  if (is("submitted")) {  // the device is at work, and nobody has waited
    kept = begin({});
    const Buffer x = must(kept->device.allocate(kept->x.size() * 4));
    if (!x.write(std::as_bytes(std::span(kept->x))).ok()) fail("the input cannot be written");
    const Buffer y = must(kept->device.allocate(kept->x.size() * 4)), y1 = must(kept->device.allocate(kColumns * 4));
    for (int i = 0; i < 20; ++i)
      new Submission(must(kept->program.submit({.inputs = {{"x", x}}, .outputs = {{"y", y}, {"y1", y1}}})));
    return 0;
  }
  if (is("child")) {  // which uses what the parent has, then lets go of it; drivers' own handlers are no business of a
                      // child's
    kept = begin({});
    static_cast<void>(must(kept->device.allocate(1 << 20)));  // a spare buffer, which is not the child's
    if (const pid_t child = ::fork(); child == 0) {
      std::_Exit(use_in_child(*kept));
    } else if (const int status = status_of(child); status != 0) {
      return status;
    }
    if (const pid_t child = ::fork(); child == 0) {
      kept.reset();
      std::_Exit(0);
    } else if (const int status = status_of(child); status != 0) {
      return status;
    }
    must(kept->program.run({{"x", kept->x}}));  // the parent's is as it was
    return 0;
  }
  if (is("tuning-child")) {
    kept = begin(in_background());
    wait_for(microseconds);
    if (const pid_t child = ::fork(); child == 0) {
      kept.reset();
      std::_Exit(0);
    } else if (const int status = status_of(child); status != 0) {
      return status;
    }
    return 0;
  }
  fail("there is no such way");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) fail("usage: exits HOW MICROSECONDS");
  return run(arguments[1], std::atol(arguments[2]));
}
