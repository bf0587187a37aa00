// Schedules that nobody would choose.
#pragma once

#include "golden/targets.hpp"
#include "schedule/schedule.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

namespace vkfuse::test {

struct Forced {
  const char* name;  ///< begins with a space; empty if nothing is forced
  schedule::Tuning tuning;
};

/// Nothing for every second graph.
inline Forced draw_schedule(Random& random) {
  static const std::vector<Forced> all = {
      {" vector_bytes=4", {.vector_bytes = 4}},
      {" vector_bytes=8", {.vector_bytes = 8}},
      {" workgroup=32", {.workgroup = 32}},
      {" workgroup=128", {.workgroup = 128}},
      {" unroll_factor=4", {.unroll_factor = 4}},
      {" reduction_threads=1", {.reduction_threads = 1}},
      {" reduction_threads=4", {.reduction_threads = 4}},
      {" reduction_threads=32", {.reduction_threads = 32}},
      {" persistent=false", {.persistent = false}},
      {" online=true persistent=false", {.online = true, .persistent = false}},
      {" parts=3", {.splits = 3}},
      {" block=16", {.block = 16}},
      {" matrix=true", {.matmul = true}},
      {" matrix=false", {.matmul = false}},
      {" stencil=1,1,1", {.stencil = schedule::StencilShape{1, 1, 1}}},
      {" stencil=4,2,1", {.stencil = schedule::StencilShape{4, 2, 1}}},
      {" stencil=8,1,2", {.stencil = schedule::StencilShape{8, 1, 2}}},
      {" tiled=true", {.tiled = true}},
      {" tiled=false", {.tiled = false}},
  };
  if (random.chance(50)) return {"", {}};
  return random.pick(all);
}

/// Plans as an H200 has them, whose blocks and tiles are larger. False on SwiftShader, which takes gigabytes for
/// kernels of thousands of unrolled multiply-adds.
inline bool plan_as_gpu(Build& how) {
  if (device().description().name.find("SwiftShader") != std::string::npos) return false;
  how.planned_as = kH200;
  how.costs = discrete_gpu_with_measured_costs().costs;
  return true;
}

}  // namespace vkfuse::test
