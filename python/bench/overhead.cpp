// What a run costs the host in C++: 20 kernels of one workgroup each, the median of 1,000 runs. overhead.py is the same
// through Python.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "vkfuse/vkfuse.hpp"

using namespace vkfuse;

namespace {

template <typename Work>
double median_us(const Work& work) {
  std::vector<double> times;
  for (int i = 0; i < 1100; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!work()) return -1;
    if (i >= 100)
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(times, times.begin() + 500);
  return times[500];
}

}  // namespace

int main() {
  Tensor y = Tensor::input("x", DType::f32, {64});
  for (int i = 0; i < 20; ++i) y = tanh(y);
  const Result<Device> device = Device::open();
  if (!device.ok()) return std::puts(device.error().text().c_str()), 1;
  CompileOptions options;
  options.fusion = false;  // a kernel for each op
  const Result<Executable> program = compile(*device, {y}, options);
  if (!program.ok()) return std::puts(program.error().text().c_str()), 1;
  const std::vector<float> data(64, 1.0f);
  const double run = median_us([&] { return program->run({{"x", HostView(data)}}).ok(); });
  const Result<Buffer> in = device->allocate(256), out = device->allocate(256);
  const double submit = median_us([&] {
    const Result<Submission> run = program->submit({.inputs = {{"x", *in}}, .outputs = {{"y", *out}}});
    return run.ok() && run->wait().ok();
  });
  std::printf("%d kernels; run %.1f us, submit and wait %.1f us\n", program->kernel_count(), run, submit);
  return 0;
}
