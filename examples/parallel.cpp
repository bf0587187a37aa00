// The feed-forward layer of a Llama block over the ranks of an MPI job: each rank has a part of the weights, and one
// collective adds up what the ranks have. Compares with the whole layer on one rank.
//
//   mpirun -n 2 parallel
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "vkfuse/mpi.hpp"
#include "vkfuse/vkfuse.hpp"

using namespace vkfuse;

namespace {

constexpr int kRows = 64, kWidth = 256, kHidden = 1024;

/// silu(norm(x) w1) * (norm(x) w3), times w2, plus x. `divided`: weights are divided over axis 0 of the mesh.
Tensor feed_forward(bool divided) {
  const auto weight = [&](const char* name, Shape shape, int axis) {
    const Tensor w = Tensor::input(name, DType::f32, std::move(shape));
    return divided ? shard(w, axis, 0) : w;
  };
  const Tensor x = Tensor::input("x", DType::f32, {kRows, kWidth});
  const Tensor normed = rms_normalize(x, {1}, 1e-5);
  const Tensor gate = silu(matmul(normed, weight("w1", {kWidth, kHidden}, 1)));
  const Tensor up = matmul(normed, weight("w3", {kWidth, kHidden}, 1));
  return matmul(gate * up, weight("w2", {kHidden, kWidth}, 0)) + x;
}

std::vector<float> numbers(int count, int seed) {
  std::vector<float> made;
  for (int i = 0; i < count; ++i) made.push_back(static_cast<float>((i * 7919 + seed) % 1009) / 1009 * 0.1F - 0.05F);
  return made;
}

/// Ends this process with the error, and with it the job: the other ranks get an error of their own.
template <typename T>
T value_of(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().text().c_str());
  std::_Exit(1);
}

}  // namespace

int main() {
  const std::shared_ptr<Transport> transport = value_of(open_mpi());
  const Device device = value_of(Device::open());
  ParallelOptions options;
  options.mesh.sizes = {transport->size()};
  const ParallelProgram program = value_of(compile_parallel(device, transport, {feed_forward(true)}, options));

  const std::vector<float> x = numbers(kRows * kWidth, 1), w1 = numbers(kWidth * kHidden, 2),
                           w3 = numbers(kWidth * kHidden, 3), w2 = numbers(kHidden * kWidth, 4);
  const Inputs inputs = {{"x", HostView(x)}, {"w1", HostView(w1)}, {"w3", HostView(w3)}, {"w2", HostView(w2)}};
  const Outputs divided = value_of(program.run(inputs));
  const Outputs whole = value_of(value_of(compile(device, {feed_forward(false)})).run(inputs));

  double difference = 0;
  const auto a = divided.at("y").as<float>(), b = whole.at("y").as<float>();
  for (std::size_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
  if (transport->rank() == 0) {
    std::printf("%s", program.explain().c_str());
    std::printf("largest difference from one rank: %g\n", difference);
  }
  return difference < 1e-5 ? 0 : 1;
}
