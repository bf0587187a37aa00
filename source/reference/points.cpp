// Nodes whose elements need many of their operand's, or need data to know which.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/numerics.hpp"
#include "reference/evaluator.hpp"
#include "reference/lines.hpp"
#include "reference/reduction.hpp"
#include "reference/sort.hpp"

namespace vkfuse::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The reduction that a scatter joins by: that of the reduction with the same join.
ops::Reduction reduction_of(ir::ScatterMode mode) {
  for (const ops::OpRow& row : ops::table()) {
    if (row.cls == ops::OpClass::reduce && row.reduction.kind == ops::Reduction::Kind::plain &&
        row.reduction.join == ir::name_of(mode))
      return row.reduction;
  }
  check(false, "a mode of scatter joins as some reduction does");
  return {};
}

}  // namespace

template <typename IndexOf, typename Take>
Result<void> Evaluator::stream(ir::NodeId id, std::int64_t count, IndexOf index_of, Take take) {
  Indices block;
  for (std::int64_t start = 0; start < count; start += static_cast<std::int64_t>(kBlock)) {
    const std::int64_t end = std::min(count, start + static_cast<std::int64_t>(kBlock));
    block.clear();
    for (std::int64_t s = start; s < end; ++s) block.push_back(index_of(s));
    VKF_TRY(elements, values(id, block));
    for (std::int64_t s = start; s < end; ++s) take(s, elements[static_cast<std::size_t>(s - start)]);
  }
  return {};
}

Result<Elements> Evaluator::reduced(ir::NodeId id, const Indices& indices) {
  const ir::Node& node = graph_.node(id);
  const ir::NodeId operand = node.operands[0];
  const DType dtype = graph_.node(operand).type.dtype;
  const Fibers fibers(sizes(operand), std::get<ir::AxesPayload>(node.payload).axes);
  const std::int64_t length = fibers.length();
  const Reducer empty(node.op->reduction, dtype, longest_sum_chain(length));
  Elements results(indices.size(), empty.result());
  if (length == 0) return results;
  std::optional<Reducer> reducer;
  const auto index_of = [&](std::int64_t s) {
    return fibers.base(indices[static_cast<std::size_t>(s / length)]) + fibers.offset(s % length);
  };
  VKF_CHECK_OK(stream(operand, static_cast<std::int64_t>(indices.size()) * length, index_of,
                      [&](std::int64_t s, const Element& x) {
                        if (s % length == 0) reducer.emplace(empty);
                        reducer->add(x);
                        if (s % length == length - 1) results[static_cast<std::size_t>(s / length)] = reducer->result();
                      }));
  return results;
}

// Line by line. -----------------------------------------------------------------------------------

template <typename LineOf>
Result<Elements> Evaluator::by_lines(ir::NodeId id, int axis, const Indices& indices, LineOf line_of) {
  const ir::NodeId operand = graph_.node(id).operands[0];
  const Lines from(sizes(operand), axis);
  const Lines to(sizes(id), axis);
  std::map<std::int64_t, std::vector<std::size_t>> asked;  // by line, which of the indices
  for (std::size_t i = 0; i < indices.size(); ++i) asked[to.line_of(indices[i])].push_back(i);
  Indices lines;
  for (const auto& entry : asked) lines.push_back(entry.first);

  Elements results(indices.size());
  Elements line;
  const auto index_of = [&](std::int64_t s) {
    return from.index_of(lines[static_cast<std::size_t>(s / from.size)], s % from.size);
  };
  VKF_CHECK_OK(stream(operand, static_cast<std::int64_t>(lines.size()) * from.size, index_of,
                      [&](std::int64_t s, const Element& x) {
                        line.push_back(x);
                        if (s % from.size != from.size - 1) return;
                        const Elements computed_line = line_of(line);
                        for (std::size_t i : asked.at(lines[static_cast<std::size_t>(s / from.size)])) {
                          results[i] = computed_line[static_cast<std::size_t>(to.position_of(indices[i]))];
                        }
                        line.clear();
                      }));
  return results;
}

void Evaluator::complete_lines(ir::NodeId id, Indices& indices) const {
  int axis = -1;
  if (const auto* scan = std::get_if<ir::ScanPayload>(&graph_.node(id).payload)) axis = scan->axis;
  if (const auto* sort = std::get_if<ir::SortPayload>(&graph_.node(id).payload)) axis = sort->axis;
  if (axis < 0) return;
  const Lines shape(sizes(id), axis);
  Indices lines;
  for (std::int64_t index : indices) lines.push_back(shape.line_of(index));
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  indices.clear();
  for (std::int64_t line : lines) {
    for (std::int64_t position = 0; position < shape.size; ++position)
      indices.push_back(shape.index_of(line, position));
  }
}

Result<Elements> Evaluator::scanned(ir::NodeId id, const Indices& indices) {
  const ir::Node& node = graph_.node(id);
  const auto& scan = std::get<ir::ScanPayload>(node.payload);
  const DType dtype = graph_.node(node.operands[0]).type.dtype;
  return by_lines(id, scan.axis, indices, [&](const Elements& line) {
    Reducer reducer(node.op->reduction, dtype, longest_sum_chain(static_cast<std::int64_t>(line.size())));
    Elements results(line.size());
    for (std::size_t step = 0; step < line.size(); ++step) {
      const std::size_t i = scan.reverse ? line.size() - 1 - step : step;
      if (scan.exclusive) results[i] = reducer.result();
      reducer.add(line[i]);
      if (!scan.exclusive) results[i] = reducer.result();
    }
    return results;
  });
}

Result<Elements> Evaluator::sorted(ir::NodeId id, const Indices& indices) {
  const auto& sort = std::get<ir::SortPayload>(graph_.node(id).payload);
  const DType dtype = graph_.node(graph_.node(id).operands[0]).type.dtype;
  return by_lines(id, sort.axis, indices,
                  [&](const Elements& line) { return sorted_positions(dtype, line, sort.descending); });
}

// Positions in data. ------------------------------------------------------------------------------

Result<Elements> Evaluator::gathered(ir::NodeId id, const Indices& indices) {
  const ir::Node& node = graph_.node(id);
  const Sizes& data = sizes(node.operands[0]);
  const Sizes& positions = sizes(node.operands[1]);
  const auto& [axis, or_zero] = std::get<ir::AxisPayload>(node.payload);
  const Lines shape(data, axis);
  if (shape.size == 0 && or_zero) return Elements(indices.size());
  if (shape.size == 0 && !indices.empty())
    return invalid("'{}' reads along axis {} of {}, which has no elements in this run.", node.op->name, axis,
                   to_text(graph_.node(node.operands[0]).type));
  const bool along = node.op->role == ops::Role::take_along;
  VKF_TRY(count, element_count(positions));

  Indices wanted;
  std::vector<std::int64_t> at;
  for (std::int64_t index : indices) {
    if (along) {
      coordinates_of(index, sizes(id), at);
      for (std::size_t i = 0; i < at.size(); ++i) at[i] = positions[i] == 1 ? 0 : at[i];
      wanted.push_back(flat_index(at, positions));
    } else {
      wanted.push_back(index / shape.inner % count);
    }
  }
  VKF_TRY(chosen, values(node.operands[1], wanted));

  Indices from;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::int64_t position = std::clamp<std::int64_t>(chosen[i].integer, 0, shape.size - 1);
    const std::int64_t replaced =
        along ? sizes(id)[static_cast<std::size_t>(axis)] : count;  // what stands for the axis
    const std::int64_t outer = indices[i] / (replaced * shape.inner);
    from.push_back((outer * shape.size + position) * shape.inner + indices[i] % shape.inner);
  }
  VKF_TRY(result, values(node.operands[0], from));
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (chosen[i].bound != 0) result[i].bound = kInfinity;
  }
  return result;
}

/// Of rows with a position each: the last that has an element's, and else the base's own.
Result<Elements> Evaluator::placed(ir::NodeId id, const Indices& indices) {
  const ir::Node& node = graph_.node(id);
  const auto axis = static_cast<std::size_t>(std::get<ir::UpdatePayload>(node.payload).axis);
  const Sizes &base = sizes(id), &rows = sizes(node.operands[2]), &positions = sizes(node.operands[1]);
  VKF_TRY(results, values(node.operands[0], indices));
  Indices all(static_cast<std::size_t>(*element_count(positions)));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  VKF_TRY(position, values(node.operands[1], all));
  const bool is_decided = std::ranges::all_of(position, [](const auto& one) { return one.bound == 0; });
  std::vector<std::int64_t> at;
  Indices from;
  std::vector<std::size_t> replaced;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    coordinates_of(indices[i], base, at);
    const std::int64_t wanted = at[axis];
    for (at[axis] = rows[axis] - 1; at[axis] >= 0; --at[axis]) {
      const std::vector<std::int64_t> first(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
      if (position[static_cast<std::size_t>(flat_index(first, positions))].integer == wanted) break;
    }
    if (at[axis] < 0) continue;
    from.push_back(flat_index(at, rows));
    replaced.push_back(i);
  }
  VKF_TRY(written, values(node.operands[2], from));
  for (std::size_t k = 0; k < replaced.size(); ++k) results[replaced[k]] = written[k];
  for (std::size_t i = 0; i < results.size() && !is_decided; ++i) results[i].bound = kInfinity;
  return results;
}

/// Row by row, as the op is documented: which row of the operand an element is, if any, and else the base's own.
Result<Elements> Evaluator::updated(ir::NodeId id, const Indices& indices) {
  const ir::Node& node = graph_.node(id);
  const auto& update = std::get<ir::UpdatePayload>(node.payload);
  if (update.has_position_of_each_row(graph_.node(node.operands[1]).type.shape)) return placed(id, indices);
  const auto axis = static_cast<std::size_t>(update.axis);
  const Sizes &base = sizes(id), &rows = sizes(node.operands[2]), &starts = sizes(node.operands[1]);
  const std::int64_t size = base[axis], count = rows[axis];
  VKF_TRY(results, values(node.operands[0], indices));
  std::vector<std::int64_t> at;
  Indices asked;
  for (const std::int64_t index : indices) {
    coordinates_of(index, base, at);
    at.resize(starts.size());
    asked.push_back(flat_index(at, starts));
  }
  VKF_TRY(start, values(node.operands[1], asked));
  Indices from;
  std::vector<std::size_t> replaced;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (start[i].bound != 0) results[i].bound = kInfinity;
    coordinates_of(indices[i], base, at);
    const std::int64_t first = std::clamp<std::int64_t>(start[i].integer, 0, update.circular ? size - 1 : size);
    std::int64_t row = at[axis] - first;
    if (update.circular && row < 0) row += size;
    if (row < 0 || row >= count) continue;
    at[axis] = row;
    from.push_back(flat_index(at, rows));
    replaced.push_back(i);
  }
  VKF_TRY(written, values(node.operands[2], from));
  for (std::size_t k = 0; k < replaced.size(); ++k) {
    const bool undecided = results[replaced[k]].bound == kInfinity && start[replaced[k]].bound != 0;
    results[replaced[k]] = written[k];
    if (undecided) results[replaced[k]].bound = kInfinity;
  }
  return results;
}

Result<const Evaluator::Rows*> Evaluator::rows_of(ir::NodeId scatter) {
  const auto found = rows_.find(scatter);
  if (found != rows_.end()) return &found->second;
  const ir::Node& node = graph_.node(scatter);
  const std::int64_t count = sizes(node.operands[1])[0];
  Rows rows;
  VKF_CHECK_OK(stream(
      node.operands[1], count, [](std::int64_t s) { return s; },
      [&](std::int64_t s, const Element& position) {
        rows.decided = rows.decided && position.bound == 0;
        if (position.integer >= 0 && position.integer < sizes(scatter)[0]) rows.updates[position.integer].push_back(s);
      }));
  return &rows_.emplace(scatter, std::move(rows)).first->second;
}

namespace {

/// The updates of elements, in the order in which they are added; of those that replace, the last alone.
std::vector<ScatterJoin> joins_of(const std::unordered_map<std::int64_t, Indices>& updates_by_row,
                                  const Indices& indices, std::int64_t row_elements, ir::ScatterMode mode) {
  std::vector<ScatterJoin> joins;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto found = updates_by_row.find(indices[i] / row_elements);
    if (found == updates_by_row.end()) continue;
    const Indices& updates = found->second;
    for (std::size_t k = mode == ir::ScatterMode::set ? updates.size() - 1 : 0; k < updates.size(); ++k) {
      joins.push_back({i, updates[k] * row_elements + indices[i] % row_elements, k + 1 == updates.size(),
                       static_cast<std::int64_t>(updates.size())});
    }
  }
  return joins;
}

}  // namespace

Result<void> Evaluator::join_updates(ir::NodeId scatter, const std::vector<ScatterJoin>& joins, Elements& results) {
  const ir::Node& node = graph_.node(scatter);
  const auto mode = std::get<ir::ScatterPayload>(node.payload).mode;
  std::optional<Reducer> reducer;
  const auto index_of = [&](std::int64_t s) { return joins[static_cast<std::size_t>(s)].update; };
  return stream(node.operands[2], static_cast<std::int64_t>(joins.size()), index_of,
                [&](std::int64_t s, const Element& x) {
                  const ScatterJoin& join = joins[static_cast<std::size_t>(s)];
                  Element& result = results[join.result];
                  if (mode == ir::ScatterMode::set) {
                    result = x;
                    return;
                  }
                  // The updates are reduced first, and rounded where they are stored in between.
                  if (!reducer) reducer.emplace(reduction_of(mode), node.type.dtype, join.updates);
                  reducer->add(x);
                  if (!join.is_last) return;
                  Reducer both(reduction_of(mode), node.type.dtype, 2);
                  both.add(result);
                  both.add(reducer->result());
                  result = both.result();
                  reducer.reset();
                });
}

Result<Elements> Evaluator::scattered(ir::NodeId id, const Indices& indices) {
  const ir::Node& node = graph_.node(id);
  const Lines shape(sizes(id), 0);
  VKF_TRY(rows, rows_of(id));
  VKF_TRY(results, values(node.operands[0], indices));
  if (!rows->decided) {
    for (Element& element : results) element.bound = kInfinity;
    return results;
  }
  const auto mode = std::get<ir::ScatterPayload>(node.payload).mode;
  VKF_CHECK_OK(join_updates(id, joins_of(rows->updates, indices, shape.inner, mode), results));
  return results;
}

}  // namespace vkfuse::reference
