// Which columns of a row a reduction has to visit, where data says so: those between two positions that are loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.hpp"
#include "schedule/schedule.hpp"
#include "segment/loops.hpp"

namespace vkfuse::schedule {

/// A position that is known for a row before its columns are visited: an i32, which may be any number.
struct ColumnBound {
  segment::ValueId value = 0;
  bool after = false;  ///< the columns begin, or end, at the next position
  friend bool operator==(const ColumnBound&, const ColumnBound&) = default;
};

/// Outside [the largest of `begin`, the smallest of `end`) every element that is reduced is the identity of its
/// reduction, so that a loop may leave these columns out. One of the two may be empty.
struct VisitedColumns {
  std::vector<ColumnBound> begin, end;
};

/// Of loops whose reductions all choose by comparisons of the column with values of the row between something and
/// their identity, as sums over the rows of a ragged tensor do; nothing of others.
std::optional<VisitedColumns> visited_columns(const ir::Graph& graph, const segment::Loops& loops);

/// How many columns of a row a loop visits in the mean: all, or an estimate where data says. Between two loaded bounds
/// each column is taken to belong to one row; with one bound half of them are visited.
std::int64_t expected_columns(const ir::Graph& graph, const segment::Loops& loops);

/// The same in chunks of the schedule along the columns.
std::int64_t visited_chunks(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule);

}  // namespace vkfuse::schedule
