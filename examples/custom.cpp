// Ops of one's own: an elementwise function in GLSL, which fuses with what stands around it, and a whole kernel, which
// does not.
#include <vkfuse/vkfuse.hpp>

#include <cmath>
#include <cstdio>

using namespace vkfuse;

namespace {

/// The running maximum of each row, written as a shader: one workgroup a row, one invocation at work.
constexpr const char* kRunningMaximum = R"(#version 450
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Sizes { uint rows, columns, result_rows, result_columns; };
void main() {
  if (gl_LocalInvocationID.x != 0u) return;
  uint first = gl_WorkGroupID.y * columns;
  float most = x[first];
  for (uint i = 0u; i < columns; ++i) {
    most = max(most, x[first + i]);
    y[first + i] = most;
  }
}
)";

}  // namespace

int main() {
  const Tensor x = Tensor::input("x", DType::f32, {4, 8});
  const CustomOp swish{.name = "swish", .glsl = "x0 / (1.0 + exp(-x1 * x0))"};
  const Tensor smooth = custom(swish, {x, Tensor::scalar(DType::f32, 1.5)}) * 2.0;  // one kernel
  const CustomKernel running{
      .name = "running_maximum", .glsl = kRunningMaximum, .shape = x.shape(), .workgroup = 32, .tile = {1, 8}};
  const Tensor y = custom(running, {smooth}) + 1.0;  // two more

  const Result<Device> device = Device::open();
  if (!device.ok()) return std::fprintf(stderr, "%s\n", device.error().text().c_str()), 1;
  const Result<Executable> program = compile(*device, {y});
  if (!program.ok()) return std::fprintf(stderr, "%s\n", program.error().text().c_str()), 1;
  std::printf("%d kernels\n", program->kernel_count());

  std::vector<float> data(32);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::sin(static_cast<float>(i));
  const Result<Outputs> out = program->run({{"x", HostView(data)}});
  if (!out.ok()) return std::fprintf(stderr, "%s\n", out.error().text().c_str()), 1;
  const auto got = out->at("y").as<float>();
  double error = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    double most = -INFINITY;
    for (std::size_t i = 8 * row; i < 8 * row + 8; ++i) {
      most = std::fmax(most, 2 * data[i] / (1 + std::exp(-1.5 * data[i])));
      error = std::fmax(error, std::fabs(got[i] - (most + 1)));
    }
  }
  std::printf("largest error %.1e\n", error);
  return error < 1e-5 && program->kernel_count() == 3 ? 0 : 1;
}
