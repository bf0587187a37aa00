// What a schedule moves, executes and computes, and how long that takes in the model. Shared by the templates.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Load instructions of one chunk, and of one store.
std::int64_t instructions(const AccessPlan& plan, int element_bytes, int elements);
/// 128-byte lines of the same access of a whole subgroup.
std::int64_t lines(const AccessPlan& plan, int element_bytes, int elements, int subgroup);

/// Whether elements of a buffer, of fewer than 4 bytes and not stored as vectors, are written by stores of their own
/// size: the device has them, and the kernel does not read the buffer too. Otherwise two atomic operations write each.
bool stores_sub32(const ir::Graph& graph, const segment::Loops& loops, const Target& target, const Schedule& schedule,
                  ir::NodeId node);

/// Bytes of loads and stores, each element once per load.
void count_bytes(const ir::Graph& graph, const segment::Loops& loops, Schedule& schedule);

/// Bytes that caches hand out for each byte of a run of consecutive elements: they work in sectors of 32 bytes.
double sector_overhead(std::int64_t run_bytes);

/// Bytes that caches move beside those that are counted, because neighbours along an axis are apart in memory: a sector
/// for each element that is stored, or loaded to compute results, by itself (AccessKind::element). Loads whose
/// positions are data do not count.
double bytes_of_strided_results(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule,
                                int axis);

/// Bytes that memory moves for the loads and stores of a schedule whose bytes are counted; more where caches
/// hand out so many sectors for them that this takes longer.
double traffic(const ir::Graph& graph, const segment::Loops& loops, const Target& target, const Schedule& schedule);

/// Of one element of an op, in fused multiply-adds.
double cost_of(const ir::Node& node);

/// Modelled cost of computing every value once per element that it varies with, in fused multiply-adds. Of the columns
/// only the share `visited` is counted; along `rows`, what varies with columns is computed again.
double compute_cost(const ir::Graph& graph, const segment::Loops& loops, double visited = 1, segment::AxisSet rows = 0);

/// Launches, then the slower of moving `traffic` bytes and of computing (in fused multiply-adds) and executing
/// loads and stores; a twentieth of the faster does not overlap.
double modelled_us(const CostModel& costs, int dispatches, double traffic, double compute, std::int64_t accesses);

/// Whether so many threads leave most of a GPU idle, so that it is the longest of them that a kernel takes.
bool leaves_idle(const Target& target, std::int64_t threads);

}  // namespace vkfuse::schedule
