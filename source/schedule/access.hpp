// Which access kind each load and store has, given which elements belong to one chunk; and what a schedule
// moves. Shared by the templates.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Fills `loads` and `stores` of a schedule whose chunks are decided (chunk_size, vector_axis,
/// crosses_rows).
void plan_accesses(const ir::Graph& graph, const segment::Loops& loops, const Tuning& tuning, Schedule& schedule);
/// Of one load, before buffers are looked at as a whole; and of all stores.
AccessPlan plan_load(const ir::Graph& graph, const segment::Loops& loops, const Tuning& tuning,
                     const Schedule& schedule, segment::ValueId id);
void plan_stores(const ir::Graph& graph, const segment::Loops& loops, const Tuning& tuning, Schedule& schedule);

/// A buffer is one array of one word type: narrows the vectors of every buffer to those of its narrowest load.
void share_word_types(const ir::Graph& graph, const segment::Loops& loops, Schedule& schedule);

/// Words that a shifted load reads for a chunk.
int words_around(const AccessPlan& plan, int elements);
/// Registers of a thread that a chunk of a vector or shifted load takes before it is unpacked.
int registers_of_chunk(const AccessPlan& plan, int element_bytes, int elements);

/// Load instructions of one chunk, and of one store.
std::int64_t instructions(const AccessPlan& plan, int element_bytes, int elements);
/// 128-byte lines of the same access of a whole subgroup.
std::int64_t lines(const AccessPlan& plan, int element_bytes, int elements, int subgroup);

/// Sizes of elements of what may be moved as vectors along an axis.
struct Widths {
  int smallest = 8;
  int largest = 1;
  int smallest_store = 8;
};
Widths moved_widths(const ir::Graph& graph, const segment::Loops& loops, segment::AxisSet axes);

/// 16 bytes of the smallest type, but no more than two vectors of the largest: a wider chunk would spread one
/// load instruction over many cache lines.
int widest_chunk(const Widths& widths, const Tuning& tuning);

/// Loop axes along which the memory of an access is consecutive, innermost first: each one's stride is the
/// product of the sizes before it.
std::vector<int> memory_order(const segment::Loops& loops, const index::Expr& offset);

/// Limits that every template has: buffers, their sizes, axes, and `iterations` of all loops that one thread goes
/// through, about and rather too many.
Result<void> check_limits(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                          const Schedule& schedule, std::int64_t iterations = 0);

/// Whether elements of a buffer, of fewer than 4 bytes and not stored as vectors, are written by stores of their own
/// size: the device has them, and the kernel does not read the buffer too. Otherwise two atomic operations write each.
bool stores_sub32(const ir::Graph& graph, const segment::Loops& loops, const Target& target, const Schedule& schedule,
                  ir::NodeId node);

/// Bytes of loads and stores, each element once per load.
void count_bytes(const ir::Graph& graph, const segment::Loops& loops, Schedule& schedule);

/// Bytes that caches hand out for each byte of a run of consecutive elements: they work in sectors of 32 bytes.
double sector_overhead(std::int64_t run_bytes);

/// Bytes that memory moves for the loads and stores of a schedule whose bytes are counted; more where caches
/// hand out so many sectors for them that this takes longer.
double traffic(const ir::Graph& graph, const segment::Loops& loops, const Target& target, const Schedule& schedule);

/// Threads of the largest workgroup that tunings try.
int largest_workgroup(const Caps& caps);

struct AxisCounts {
  int rows = 0;
  int columns = 0;
};
AxisCounts count_axes(const segment::Loops& loops);

std::int64_t element_count_of(const segment::Loops& loops, const index::Expr& offset);

/// Of one element of an op, in fused multiply-adds.
double cost_of(const ir::Node& node);

/// Modelled cost of computing every value once per element that it varies with, in fused multiply-adds.
double compute_cost(const ir::Graph& graph, const segment::Loops& loops);

/// Launches, then the slower of moving `traffic` bytes and of computing (in fused multiply-adds) and executing
/// loads and stores; a twentieth of the faster does not overlap.
double modelled_us(const CostModel& costs, int dispatches, double traffic, double compute, std::int64_t accesses);

/// Whether accesses that have been planned for these loops allow those of a schedule for other sizes.
bool serve(const Schedule& planned, const Schedule& model);

}  // namespace vkfuse::schedule
