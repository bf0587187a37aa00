// Which access kind each load and store has, given which elements belong to one chunk. Shared by the templates.
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

struct AxisCounts {
  int rows = 0;
  int columns = 0;
};
AxisCounts count_axes(const segment::Loops& loops);

std::int64_t element_count_of(const segment::Loops& loops, const index::Expr& offset);

/// Whether accesses that have been planned for these loops allow those of a schedule for other sizes.
bool serve(const Schedule& planned, const Schedule& model);

}  // namespace vkfuse::schedule
