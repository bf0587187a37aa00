// What a kernel is to a driver's compiler, and whether that is within the target's budget.
#pragma once

#include <span>

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Statements of GLSL that one element of a node takes, with functions in place of their calls; 1 for what is no
/// computation.
int statements_of(const ir::Graph& graph, ir::NodeId id);

/// Statements of a kernel: of every value, `statements` of its node, in each pass that computes it, for as many
/// elements as a chunk has. Chunks in flight and rows in registers are the schedule's choice, and no reason to store a
/// value.
std::int64_t statements_of(const segment::Loops& loops, const Schedule& schedule, std::span<const int> statements);

/// Whether a thread's `elements` of a row may stay in registers: its iterations are then unrolled, and all of them are
/// text.
bool may_unroll(const ir::Graph& graph, const segment::Loops& loops, const Target& target, std::int64_t elements);

/// Why a kernel of several ops is none, in one sentence; empty where it is within the target's budget.
std::string over_budget(const segment::Loops& loops, const Schedule& schedule, std::span<const int> statements,
                        const Target& target);

}  // namespace vkfuse::schedule
