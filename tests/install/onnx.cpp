// An ONNX model from memory, in C++: prints what its graph is called and the elements of its first result.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vkfuse/onnx.hpp>
#include <vkfuse/vkfuse.hpp>

int main(int, char** paths) {
  std::ifstream file(paths[1], std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto model = vkfuse::onnx::load_onnx(std::as_bytes(std::span(bytes)));
  const auto device = vkfuse::Device::open();
  if (!device) return std::puts(device.error().text().c_str()), 1;
  const auto program = vkfuse::onnx::compile_onnx(*device, std::as_bytes(std::span(bytes)));
  if (!model || !program) return std::puts(program ? model.error().text().c_str() : program.error().text().c_str()), 1;
  const std::vector<float> x = {0, 1, 2, 3};
  const vkfuse::Result<vkfuse::Outputs> run = program->run({{"x", vkfuse::HostView(x, {2, 2})}});
  if (!run) return std::puts(run.error().text().c_str()), 1;
  std::printf("%s:", model->name.c_str());
  const std::span<const float> elements = run->find("y")->second.as<float>();
  for (const float y : elements) std::printf(" %g", y);
  return 0;
}
