// The textbook example of fusion: y = relu(x * 2) + 1, first on one value, then on 2^20, as one kernel
// per op and as one kernel. Launches, loads and stores are counted in the plan and by walking the
// SPIR-V of the kernels that ran.
#include <vkfuse/vkfuse.hpp>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/states.hpp"
#include "spirv/walk.hpp"

namespace {

using namespace vkfuse;

struct Counts {
  int kernels = 0;
  int loads = 0;  // in the SPIR-V, all kernels
  int stores = 0;
  double microseconds = 0;
  std::int64_t bytes = 0;
  std::int64_t transactions = 0;
};

/// Accesses of one invocation and item, from the SPIR-V itself: whole vectors, where there is more than
/// one value.
Result<Counts> count(const Executable& program, const std::vector<float>& x) {
  Counts counts;
  counts.kernels = program.kernel_count();
  auto specialization = program.state()->program->specialization({});
  if (!specialization) return std::move(specialization).error();
  for (const auto& step : (*specialization)->compiled) {
    for (const auto& kernel : step) {
      auto accesses = spirv::memory_accesses(kernel->spirv);
      if (!accesses) return std::move(accesses).error();
      for (const spirv::MemoryAccess& access : *accesses) {
        ++(access.kind == spirv::AccessKind::store ? counts.stores : counts.loads);
      }
    }
  }
  auto json = program.explain(Stage::json);
  if (!json) return std::move(json).error();
  const auto plan = nlohmann::json::parse(*json);
  // "fused" there is this program's own plan, whichever that is.
  counts.bytes = plan["bytes_fused"];
  counts.transactions = plan["transactions_fused"];
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    auto profile = program.profile_host({{"x", HostView(x)}});
    if (!profile) break;  // a queue without timestamps
    double sum = 0;
    for (const KernelTime& kernel : *profile) sum += kernel.microseconds;
    times.push_back(sum);
  }
  std::sort(times.begin(), times.end());
  counts.microseconds = times.empty() ? 0 : times[times.size() / 2];
  return counts;
}

Result<bool> run(const Device& device, const std::vector<float>& data) {
  const Tensor x = Tensor::input("x", DType::f32, {static_cast<std::int64_t>(data.size())});
  const Tensor y = relu(x * 2.0) + 1.0;
  std::printf("\ny = relu(x * 2) + 1 on %zu value%s\n", data.size(), data.size() == 1 ? "" : "s");
  std::printf("  %-14s%9s%8s%8s%14s%14s%12s\n", "", "launches", "loads", "stores", "bytes", "transactions",
              "device us");
  for (const bool fused : {false, true}) {
    CompileOptions options;
    options.name = "textbook";
    options.fusion = fused;
    auto program = compile(device, {y}, options);
    if (!program) return std::move(program).error();
    auto outputs = program->run({{"x", HostView(data)}});
    if (!outputs) return std::move(outputs).error();
    const std::span<const float> result = outputs->at("y").as<float>();
    for (std::size_t i = 0; i < data.size(); ++i) {
      const float want = std::max(data[i] * 2.0F, 0.0F) + 1.0F;
      if (result[i] != want) {
        std::fprintf(stderr, "Element %zu is %g instead of %g.\n", i, static_cast<double>(result[i]),
                     static_cast<double>(want));
        return false;
      }
    }
    auto counts = count(*program, data);
    if (!counts) return std::move(counts).error();
    std::printf("  %-14s%9d%8d%8d%14lld%14lld%12.1f\n", fused ? "fused" : "one per op", counts->kernels, counts->loads,
                counts->stores, static_cast<long long>(counts->bytes), static_cast<long long>(counts->transactions),
                counts->microseconds);
    if (fused && data.size() == 1)
      std::printf("  y(%g) = %g\n", static_cast<double>(data[0]), static_cast<double>(result[0]));
  }
  return true;
}

}  // namespace

int main() {
  auto device = Device::open();
  if (!device) {
    std::fprintf(stderr, "%s\n", device.error().text().c_str());
    return 2;
  }
  std::printf("device: %s\nloads and stores are counted in the SPIR-V: one each is one vector of 4 values\n",
              device->description().name.c_str());
  std::vector<float> many(1 << 20);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i % 1000) - 500.0F;
  for (const std::vector<float>& data : {std::vector<float>{3.0F}, many}) {
    auto right = run(*device, data);
    if (!right) {
      std::fprintf(stderr, "%s\n", right.error().text().c_str());
      return 2;
    }
    if (!*right) return 1;
  }
  return 0;
}
