// Fragments that lanes make from memory, for few rows: which contractions they are for, and what they take. Through
// shared memory, weights of few rows are moved as often as they are multiplied.
#include <algorithm>
#include <cmath>

#include "device_model/device_model.hpp"
#include "schedule/operands.hpp"
#include "schedule/sub_byte.hpp"
#include "schedule/traffic.hpp"
#include "templates/matmul/cost.hpp"
#include "templates/matmul/tiles.hpp"

namespace vkfuse::schedule {

using segment::Loops;

namespace {

constexpr int kLanes = 32;
constexpr int kFewestElements = 8, kMostElements = 32;  ///< of a chunk: of f16 in 16 bytes, of four bits

/// The elements of a chunk of weights, if all have as many; 0 if not.
int elements_of_weights(const MatmulParams& tile) {
  int elements = 0;
  for (const TileOperand& tile_operand : tile.tile_operands) {
    if (!tile_operand.second) continue;
    if (elements != 0 && tile_operand.elements != elements) return 0;
    elements = tile_operand.elements;
  }
  return elements >= kFewestElements ? elements : 0;
}

/// Whether chunks of so many elements lie along the sum.
bool has_chunks_along_k(const Loops& loops, const MatmulParams& tile, const TileOperand& tile_operand, int elements) {
  const std::int64_t size = tile_operand.flattened ? count_along(loops, tile.k) : size_of_axis(loops, tile.k.back());
  return tile_operand.along_k && elements % tile_operand.elements == 0 && size % elements == 0;
}

/// About: whether an operand's elements are numbers of four or eight bits, times a scale or not (lowering's
/// NumberPairs).
bool is_made_in_pairs(const ir::Graph& graph, const Loops& loops, segment::ValueId operand) {
  const auto is_number = [&](segment::ValueId id) {
    const auto number = sub_byte_number_of(graph, loops, id);
    if (number && (number->mask == 15 || number->mask == 0xff)) return true;
    const segment::Value& value = loops.values[id];
    return value.kind == segment::Value::Kind::compute && value.operands.size() == 1 &&
           loops.values[value.operands[0]].kind == segment::Value::Kind::load &&
           size_of(graph.node(loops.values[value.operands[0]].node).type.dtype) == 1;
  };
  const segment::Value& value = loops.values[operand];
  return is_number(operand) ||
         (value.kind == segment::Value::Kind::compute && ops::element_row(*graph.node(value.node).op).name == "mul" &&
          std::ranges::any_of(value.operands, is_number));
}

/// Of an element of an operand, in multiply-adds: that it is computed, and becomes half of a word.
double cost_of_element(const ir::Graph& graph, const Loops& loops, const Schedule& schedule,
                       const TileOperand& tile_operand) {
  // Two at a time: bitwise instructions, of which GPUs do half as many, a multiply-add and a scale.
  constexpr double kPacked = 0.5, kOfPair = 1.5;
  const double cost = cost_of_operand(graph, loops, schedule, tile_operand.value);
  if (cost == 0) return tile_operand.second ? 0 : kPacked;
  return (is_made_in_pairs(graph, loops, tile_operand.value) ? kOfPair : cost) + kPacked;
}

/// What a lane loads as vectors of a chunk.
double bytes_of_chunk(const ir::Graph& graph, const Loops& loops, const Schedule& schedule,
                      const TileOperand& tile_operand) {
  int words = 0;
  for (segment::ValueId id : backward_slice_of(loops, tile_operand.value)) {
    if (loops.values[id].kind != segment::Value::Kind::load || schedule.loads[id].kind != AccessKind::vector) continue;
    words += registers_of_chunk(schedule.loads[id], size_of(graph.node(loops.values[id].node).type.dtype),
                                tile_operand.elements);
  }
  return 4.0 * words;
}

}  // namespace

int columns_of_lanes(const MatmulParams& tile) { return kLanesOfRow * tile.tile_operands.front().elements; }

int subgroups_of_lane_fragments(const TileShape& shape) { return shape.threads / kLanes; }

TileShape shape_of_lane_fragments(const MatmulParams& tile, int subgroups) {
  const auto m = static_cast<int>(tile.mma()->n), n = static_cast<int>(tile.mma()->m);
  return {m, n, columns_of_lanes(tile) * subgroups, m, n, kLanes * subgroups};
}

bool fits_lane_fragments(const Loops& loops, const MatmulParams& tile) {
  return count_along(loops, tile.m) <= kMostLaneRows && count_along(loops, tile.k) % columns_of_lanes(tile) == 0;
}

std::optional<MatmulParams> with_lane_fragments(const Loops& loops, const Target& target, const MatmulParams& tile,
                                                int vectors) {
  const std::optional<MatrixShape>& mma = target.caps.matrix.lane_fragments;
  const int elements = elements_of_weights(tile) * vectors;
  if (!mma || elements == 0 || elements > kMostElements || count_along(loops, tile.n) < mma->m ||
      !tile.row_reductions.empty() || !tile.row_values.empty() || !tile.epilogues.empty())
    return std::nullopt;
  MatmulParams own = tile;
  own.products = LaneFragmentProducts{{*mma}};
  for (TileOperand& tile_operand : own.tile_operands) {
    if (!has_chunks_along_k(loops, tile, tile_operand, elements)) return std::nullopt;
    tile_operand.elements = elements;
  }
  const auto is_turned = [&](const MatmulParams::Sum& sum) {
    return !own.tile_operands[static_cast<std::size_t>(sum.first)].second &&
           own.tile_operands[static_cast<std::size_t>(sum.second)].second;
  };
  return std::ranges::all_of(own.sums, is_turned) && fits_lane_fragments(loops, own) ? std::optional(own)
                                                                                     : std::nullopt;
}

double lane_fragments_us(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  const auto& tile = schedule.as<MatmulParams>();
  const DeviceModel& model = device_model(target);
  const LaneFragments& fit = model.lane_fragments;
  const CostModel costs = costs_of(target);
  const double k = static_cast<double>(count_along(loops, tile.k));
  const double weights = k * static_cast<double>(schedule.launch.workgroups) * tile.shape.n;
  double computed = 0, bytes_of_lane = 0;  // of an element of weights, and of a step
  for (const TileOperand& tile_operand : tile.tile_operands) {
    computed += cost_of_element(graph, loops, schedule, tile_operand) / (tile_operand.second ? 1 : kRowsOfLane);
    if (tile_operand.second) bytes_of_lane += bytes_of_chunk(graph, loops, schedule, tile_operand);
  }
  const double results = weights / k * tile.shape.m * cost_of(graph, loops, backward_slice_of_results(loops));
  const double compute_us = (weights * computed + results) / (fit.issue_share * costs.gflops * 1e3);
  // Workgroups at a time, of which each lane has some steps in flight.
  const double of_unit = std::floor(model.units.registers / (schedule.cost.registers * schedule.workgroup));
  const double resident = std::max(1.0, of_unit) * model.units.count;
  const auto groups = static_cast<double>(schedule.launch.workgroups);
  const double in_flight =
      std::min(groups, resident) * schedule.workgroup * kLaneStepsAhead * kRowsOfLane * bytes_of_lane;
  const auto bytes = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written);
  const double piece = kLanesOfRow * bytes_of_lane / static_cast<double>(tile.sums.size());
  const double loaded = bytes * (1 + fit.piece_bytes / std::max(piece, 1.0));
  const double memory_us = std::max(loaded / (fit.copy_share * costs.copy_gb_per_s * 1e3),
                                    bytes / std::max(in_flight, 1.0) * fit.latency_us);
  return costs.launch_us + std::ceil(groups / resident) * fit.first_us + std::max(compute_us, memory_us) +
         fit.beside * std::min(compute_us, memory_us);
}

}  // namespace vkfuse::schedule
