// The program of README.md.
#include <cstdio>
#include <vkfuse/vkfuse.hpp>
using namespace vkfuse;

int main() {
  Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 4});
  Tensor y = relu(x * 2.0) + 1.0;
  Result<Device> device = Device::open();  // or {.name = "llvmpipe"}
  if (!device) return std::puts(device.error().text().c_str()), 1;
  Result<Executable> program = compile(*device, {y});  // n may differ from run to run
  if (!program) return std::puts(program.error().text().c_str()), 1;
  std::vector<float> data = {-1, 0, 1, 3};
  Result<Outputs> out = program->run({{"x", HostView(data)}});
  if (!out) return std::puts(out.error().text().c_str()), 1;
  for (float value : out->at("y").as<float>()) std::printf("%g ", value);  // 1 1 3 7
}
