// Measured once and kept in the store. The planner compares kernels with it: what is worth storing on a device of much
// bandwidth is worth computing again on another.
#include "runtime/calibrate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/timer.hpp"

namespace vkfuse::runtime {

namespace {

constexpr const char* kCopy = R"(#version 450
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In { uvec4 w[]; } x;
layout(set = 0, binding = 1) writeonly buffer Out { uvec4 w[]; } y;
void main() {
  uint i = gl_GlobalInvocationID.x;
  y.w[i] = x.w[i];
}
)";

// Sixteen chains of multiply-adds, of 256 steps each; what is stored keeps them alive.
constexpr const char* kMultiply = R"(#version 450
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In { uvec4 w[]; } x;
layout(set = 0, binding = 1) writeonly buffer Out { uvec4 w[]; } y;
void main() {
  uint i = gl_GlobalInvocationID.x;
  vec4 a = vec4(x.w[i & 255u]), b = a + 1.0, c = a + 2.0, d = a + 3.0;
  for (int k = 0; k < 256; ++k) {
    a = fma(a, vec4(0.5), vec4(1.0));
    b = fma(b, vec4(0.5), vec4(1.0));
    c = fma(c, vec4(0.5), vec4(1.0));
    d = fma(d, vec4(0.5), vec4(1.0));
  }
  y.w[i] = floatBitsToUint(a + b + c + d);
}
)";
constexpr double kMultipliesPerThread = 256 * 16;

// Loads of 16 bytes that near caches hold.
constexpr const char* kLoad = R"(#version 450
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In { uvec4 w[]; } x;
layout(set = 0, binding = 1) writeonly buffer Out { uvec4 w[]; } y;
void main() {
  uint i = gl_GlobalInvocationID.x;
  uvec4 all = uvec4(0u);
  for (uint k = 0u; k < 256u; k += 4u) {
    uvec4 a = x.w[(i + k) & 255u], b = x.w[(i + k + 1u) & 255u];
    uvec4 c = x.w[(i + k + 2u) & 255u], d = x.w[(i + k + 3u) & 255u];
    all ^= (a + b) ^ (c + d);
  }
  y.w[i] = all;
}
)";
constexpr double kLoadsPerThread = 256;

class Calibration {
 public:
  explicit Calibration(OpenDevice& opened) : opened_(opened) {
    const Caps& caps = opened.device()->info().caps;
    workgroup_ = std::min({256u, caps.workgroup.max_invocations, caps.workgroup.max_x});
  }

  Result<CostModel> run() {
    // Beyond what caches hold, where the device has room for it and may bind it.
    const vulkan::DeviceInfo& info = opened_.device()->info();
    const std::uint64_t room =
        std::min({info.device_memory() / 16, info.caps.memory.storage_buffer_range, info.caps.memory.max_allocation});
    const std::uint64_t bytes = std::bit_floor(std::clamp<std::uint64_t>(room, 16u << 20, 256u << 20));
    VKF_TRY(timer, KernelTimer::create(opened_, bytes));
    const auto time = [&](const char* glsl, std::uint32_t workgroups, int times) {
      return timer.time({{glsl, "calibration", workgroup_}, workgroups, times});
    };
    constexpr std::uint32_t kGroups = 1024;
    constexpr int kTimesAlone = 20;
    const double lanes = double{kGroups} * workgroup_;
    const auto copy_groups = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / 16 / workgroup_, 65535));
    VKF_TRY(launch_us, time(kCopy, 1, 100));
    VKF_TRY(copy_us, time(kCopy, copy_groups, 1));
    VKF_TRY(multiply_us, time(kMultiply, kGroups, 1));
    VKF_TRY(alone_us, time(kMultiply, 1, kTimesAlone));
    VKF_TRY(load_us, time(kLoad, kGroups, 1));
    CostModel costs;
    costs.launch_us = launch_us / 100;
    const double own = costs.launch_us;
    const auto less_launch = [own](double us) { return std::max(us - own, us / 4); };
    costs.copy_gb_per_s = 2.0 * copy_groups * workgroup_ * 16 / less_launch(copy_us) * 1e-3;
    costs.gflops = lanes * kMultipliesPerThread / less_launch(multiply_us) * 1e-3;
    costs.compute_units =
        std::round(std::max(1.0, kGroups * less_launch(alone_us / kTimesAlone) / less_launch(multiply_us)));
    costs.accesses_per_us = lanes * kLoadsPerThread / less_launch(load_us);
    return costs;
  }

 private:
  OpenDevice& opened_;
  std::uint32_t workgroup_ = 0;
};

/// Numbers that a planner can use, whatever a file or a clock said.
bool is_sane(const CostModel& costs) {
  const auto within = [](double value, double low, double high) { return value >= low && value <= high; };
  return within(costs.copy_gb_per_s, 0.1, 1e5) && within(costs.launch_us, 0.01, 1e4) && within(costs.gflops, 1, 1e7) &&
         within(costs.accesses_per_us, 10, 1e9) && within(costs.compute_units, 0, 1e4);
}

}  // namespace

Result<std::optional<CostModel>> calibrate(OpenDevice& opened) {
  return measured_once<CostModel>(opened, "costs of", is_sane, [&] { return Calibration(opened).run(); });
}

Result<std::optional<CostModel>> DeviceCosts::get() {
  if (opened_.is_disabled("calibration") || opened_.base_target().type == DeviceType::cpu)
    return std::optional<CostModel>();
  return costs_.get([&] { return calibrate(opened_); });
}

}  // namespace vkfuse::runtime
