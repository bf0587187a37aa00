// Measured once and kept in the store: what is slower than the multiply-adds of threads is not used.
#include "runtime/rates.hpp"

#include <algorithm>
#include <cmath>

#include "lowering/components.hpp"
#include "runtime/timer.hpp"

namespace vkfuse::runtime {

namespace {

using Costs = std::optional<CostModel>;

struct Products {
  Timed timed;
  double of_workgroup = 0;  ///< multiply-adds
};

bool is_sane(const double& rate) { return std::isfinite(rate) && rate > 1e-3 && rate < 1e8; }

/// Multiply-adds in a nanosecond. The best of a few: what else the device does may only take from it.
Result<double> measure(OpenDevice& opened, const Products& products, double launch_us) {
  const Timed& timed = products.timed;
  VKF_TRY(timer, KernelTimer::create(opened, std::uint64_t{timed.workgroups} * timed.kernel.workgroup * 4));
  VKF_TRY(least, timer.time(timed));
  constexpr int kMore = 2;
  for (int i = 0; i < kMore; ++i) {
    VKF_TRY(again, timer.time(timed));
    least = std::min(least, again);
  }
  return products.of_workgroup * timed.workgroups / std::max(least - launch_us, least / 4) * 1e-3;
}

Result<std::optional<double>> rate(OpenDevice& opened, const Products& products, const Costs& costs) {
  return measured_once<double>(opened, products.timed.kernel.name, is_sane,
                               [&] { return measure(opened, products, costs ? costs->launch_us : 0); });
}

constexpr const char* kByteProducts = R"(#version 450
#extension GL_EXT_spirv_intrinsics : require
layout(local_size_x_id = 0) in;
{}
layout(set = 0, binding = 0) readonly buffer In {{ int w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ int w[]; }} y;
void main() {{
  uint i = gl_GlobalInvocationID.x;
  int b = x.w[i];
{}  for (int k = 0; k < {}; ++k) {{
{}  }}
  y.w[i] = {};
}}
)";
constexpr std::uint32_t kWorkgroups = 1024;

Products integer_dot(const Caps& caps) {
  const std::uint32_t workgroup = std::min({256u, caps.workgroup.max_invocations, caps.workgroup.max_x});
  constexpr int kSteps = 256, kChains = 8;
  std::string chains, steps, sum;
  for (int i = 0; i < kChains; ++i) {
    chains += fmt::format("  int s{0} = b + {0};\n", i);
    steps += fmt::format("    s{0} += i8x4_dot(s{0}, b, 0);\n", i);
    sum += fmt::format("{}s{}", i == 0 ? "" : " + ", i);
  }
  const std::string glsl = fmt::format(kByteProducts, lowering::kIntegerDotProduct, chains, kSteps, steps, sum);
  return {.timed = {.kernel = {glsl, "rate of T3", workgroup}, .workgroups = kWorkgroups},
          .of_workgroup = 4.0 * kSteps * kChains * workgroup};
}

constexpr const char* kMatrixProducts = R"(#version 450
#extension {extension} : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In {{ uint w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uint w[]; }} y;
shared {four} sums[{fours}];
void main() {{
  {number} one = {number}(x.w[gl_WorkGroupID.x] & 3u);
  coopmat<{factor}, gl_ScopeSubgroup, {m}, {k}, gl_MatrixUseA> a =
      coopmat<{factor}, gl_ScopeSubgroup, {m}, {k}, gl_MatrixUseA>({factor}(one));
  coopmat<{factor}, gl_ScopeSubgroup, {k}, {n}, gl_MatrixUseB> b =
      coopmat<{factor}, gl_ScopeSubgroup, {k}, {n}, gl_MatrixUseB>({factor}(one));
  coopmat<{total}, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator> sum[{chains}];
  [[unroll]] for (int i = 0; i < {chains}; ++i)
    sum[i] = coopmat<{total}, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator>({total}(i));
  for (int k = 0; k < {steps}; ++k) {{
    [[unroll]] for (int i = 0; i < {chains}; ++i) sum[i] = coopMatMulAdd(a, b, sum[i]);
  }}
  [[unroll]] for (int i = 1; i < {chains}; ++i) sum[0] = sum[0] + sum[i];
  coopMatStore({stored}, sums, 0, {n} / 4, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  uint thread = gl_LocalInvocationID.x;
  y.w[gl_WorkGroupID.x * {lanes}u + thread] = {bits}(sums[thread % {fours}u].x);
}}
)";

/// Chains of products that stay in registers.
Products matrices(const MatrixShape& shape, std::uint32_t subgroup) {
  constexpr int kSteps = 128, kChains = 4;
  const std::string stored =
      shape.c == DType::f16
          ? fmt::format("coopmat<float, gl_ScopeSubgroup, {}, {}, gl_MatrixUseAccumulator>(sum[0])", shape.m, shape.n)
          : "sum[0]";
  const std::string glsl = fmt::format(
      kMatrixProducts, fmt::arg("m", shape.m), fmt::arg("n", shape.n), fmt::arg("k", shape.k),
      fmt::arg("steps", kSteps), fmt::arg("chains", kChains), fmt::arg("lanes", subgroup),
      fmt::arg("extension", lowering::component_extension(shape.a)), fmt::arg("factor", lowering::component(shape.a)),
      fmt::arg("total", lowering::component(shape.c)), fmt::arg("four", lowering::component_vec4(shape.c)),
      fmt::arg("fours", shape.m * shape.n / 4), fmt::arg("number", is_float(shape.a) ? "float" : "int"),
      fmt::arg("bits", is_float(shape.c) ? "floatBitsToUint" : "uint"), fmt::arg("stored", stored));
  const std::string name = fmt::format("rate of T4, {} and {}, {} x {} x {} by {}", name_of(shape.a), name_of(shape.c),
                                       shape.m, shape.n, shape.k, subgroup);
  return {.timed = {.kernel = {glsl, name, subgroup, subgroup}, .workgroups = kWorkgroups},
          .of_workgroup = double{kSteps} * kChains * shape.m * shape.n * shape.k};
}

Result<std::string> compare(OpenDevice& opened, const Products& products, const Costs& costs) {
  if (!costs) return std::string();
  VKF_TRY(measured, rate(opened, products, costs));
  return measured ? slower_than_scalar(*measured, costs->gflops) : std::string();
}

}  // namespace

std::string slower_than_scalar(double rate, double lanes) {
  return rate < lanes
             ? fmt::format("It is slower than without: {:.0f} G multiply-adds/s, and {:.0f} without it.", rate, lanes)
             : "";
}

Result<std::optional<double>> rate_of_integer_dot(OpenDevice& opened, const Costs& costs) {
  return rate(opened, integer_dot(opened.caps()), costs);
}

Result<std::string> compare_integer_dot(OpenDevice& opened, const Costs& costs) {
  return compare(opened, integer_dot(opened.caps()), costs);
}

Result<std::string> compare_matrices(OpenDevice& opened, const MatrixShape& shape, const Costs& costs) {
  return compare(opened, matrices(shape, opened.caps().subgroup.size), costs);
}

}  // namespace vkfuse::runtime
