// What tiles that a workgroup multiplies as one take of a GPU. The device shares out the work; that a step takes what
// its products and the bytes of its operands take was seen of six sizes (bench/results/h200-workgroup-tiles.txt).
#include <algorithm>
#include <cmath>

#include "schedule/traffic.hpp"
#include "templates/matmul/cost.hpp"
#include "templates/matmul/tiles.hpp"

namespace vkfuse::schedule {

namespace {

/// Steps along the sum of each workgroup. What is left of a sum is a step with clamped layouts, which takes as long as
/// three.
double steps_of(std::int64_t k, const MatmulParams& tile, const WorkgroupTiles& fit, int splits) {
  const auto steps = static_cast<double>(ceil_div(ceil_div(k, tile.shape.k), splits));
  const bool eight_at_a_time = k / tile.shape.k % kStepsOfWorkgroupTiles == 0;
  return steps * (eight_at_a_time ? 1.0 : double{fit.odd_steps}) + (k % tile.shape.k != 0 ? 2 : 0);
}

}  // namespace

double workgroup_tile_cycles(const ir::Graph& graph, const segment::Loops& loops, const DeviceModel& model,
                             const Schedule& schedule, double visible) {
  const ComputeUnits& unit = model.units;
  const WorkgroupTiles& fit = model.matrices.workgroup_tiles;
  const auto& tile = schedule.as<MatmulParams>();
  const TileShape& shape = tile.shape;
  const double elements = static_cast<double>(shape.m) * shape.n;
  const double operand_bytes = static_cast<double>(shape.m + shape.n) * shape.k * size_of(tile.mma()->a);
  const double executed = fit.products * elements * shape.k / unit.matrix_multiply_adds +
                          fit.loads * operand_bytes / unit.shared_memory_bytes;
  const std::vector<segment::ValueId> slice = backward_slice_of_results(loops);
  // Parts leave their sums as they are.
  const double bytes = schedule.splits > 1 ? size_of(tile.mma()->c)
                                           : bytes_of_result(graph, loops, loads_of_results(loops, tile, slice));
  const double results = elements * (fit.results * bytes / unit.memory_bytes +
                                     cost_of(graph, loops, slice) * visible / unit.multiply_adds);
  const double steps = steps_of(count_along(loops, tile.k), tile, fit, schedule.splits);
  const auto wave = [&](double groups) {
    return steps * std::max(groups * executed, fit.waited + executed) + groups * results;
  };
  const double all = static_cast<double>(schedule.launch.workgroups * schedule.splits);
  const double full = std::floor(all / (unit.count * fit.resident));
  const double rest = all - full * unit.count * fit.resident;
  // The first workgroups are shared out evenly. The last ones go where others have ended, which is not.
  const double beside = full > 0 ? std::min<double>(fit.resident, 1 + rest / unit.count) : std::ceil(rest / unit.count);
  return fit.start + full * wave(fit.resident) + (rest > 0 ? fit.last_wave * wave(beside) : 0);
}

}  // namespace vkfuse::schedule
