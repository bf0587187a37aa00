#include "schedule/operands.hpp"

#include <algorithm>

#include "schedule/sub_byte.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr int kMostOfAChunk = 8;  ///< elements of an operand

}  // namespace

std::vector<int> axes_in(const Loops& loops, AxisSet set) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(loops.axes.size()); ++axis) {
    if (((set >> axis) & 1u) != 0) axes.push_back(axis);
  }
  return axes;
}

bool has_vectors(DType dtype) {
  const ops::RegisterType register_type = ops::register_type_of(dtype);
  return register_type == ops::RegisterType::f32 || register_type == ops::RegisterType::i32 ||
         register_type == ops::RegisterType::u32;
}

bool sums_own_products(const ir::Graph& graph, const Loops& loops, const Value& reduction) {
  if (!segment::sums_products(graph, loops, reduction)) return false;
  const Value& product = loops.values[reduction.operands[0]];
  int readers = 0;
  for (const Value& value : loops.values)
    readers += static_cast<int>(std::count(value.operands.begin(), value.operands.end(), reduction.operands[0]));
  for (const segment::Store& store : loops.stores) readers += store.value == reduction.operands[0] ? 1 : 0;
  return readers == 1 && has_vectors(graph.node(product.node).type.dtype) &&
         size_of(graph.node(product.node).type.dtype) <= 4;
}

std::optional<double> number_of(const ir::Graph& graph, const Value& value) {
  const ir::Node& node = graph.node(value.node);
  const auto* constant = value.kind == Value::Kind::literal ? std::get_if<ir::ConstantPayload>(&node.payload) : nullptr;
  return constant == nullptr ? std::nullopt : std::optional(ir::decode(node.type.dtype, constant->bytes->data()));
}

std::optional<AccessPlan> unaligned_access(const ir::Graph& graph, const Loops& loops, const Value& load, int axis,
                                           int elements) {
  const std::int64_t size = loops.axes[static_cast<std::size_t>(axis)].size;
  if (size_of(graph.node(load.node).type.dtype) != 2 || elements < 2 || size % elements != 0 ||
      load.buffer_elements >= (std::int64_t{1} << 31))
    return std::nullopt;
  const bool scattered = std::any_of(load.data.begin(), load.data.end(),
                                     [&](ValueId id) { return ((loops.values[id].axes >> axis) & 1u) != 0; });
  const auto run = index::run_along(load.offset, axis, size, elements, elements);
  if (scattered || !run || (run->stride != 1 && run->stride != 2)) return std::nullopt;
  return AccessPlan{AccessKind::unaligned, 4, 1, static_cast<int>(run->stride)};
}

namespace {

/// The widest chunk along an axis in which the elements of a load lie side by side.
std::optional<int> widest_run(const ir::Graph& graph, const Loops& loops, const Value& load, RunAxis run_axis) {
  const std::int64_t size = loops.axes[static_cast<std::size_t>(run_axis.axis)].size;
  for (int count = 16; count >= 1; count /= 2) {
    const auto run = size % count == 0 ? index::run_along(load.offset, run_axis.axis, size, count, 16) : std::nullopt;
    if (!run) continue;
    if (count == 1) return count;
    const bool begins_well =
        run->alignment >= count || (run_axis.may_shift && unaligned_access(graph, loops, load, run_axis.axis, count));
    if (run->stride == 1 && begins_well) return count;
  }
  return std::nullopt;
}

}  // namespace

namespace {

/// Elements of a chunk along merged axes of which a load reads words, each element for several neighbours, as a byte
/// has several numbers; 0 where there are none.
int chunk_of_repeated(const ir::Graph& graph, const Loops& loops, ValueId load, RunAxis run_axis,
                      const Tuning& tuning) {
  constexpr int kLongest = 32;
  int found = 0;
  Schedule chunks;
  chunks.vector_axis = run_axis.axis;
  chunks.transforms.merged_reduction_axes = 2;  // elements may serve several neighbours
  for (int count = kMostOfAChunk; run_axis.merged && count <= kLongest; count *= 2) {
    if (loops.axes[static_cast<std::size_t>(run_axis.axis)].size % count != 0) break;
    chunks.chunk_size = count;
    const AccessPlan plan = plan_load(graph, loops, tuning, chunks, load);
    if (plan.kind != AccessKind::vector || plan.repeat == 1) continue;
    const int bytes = size_of(graph.node(loops.values[load].node).type.dtype);
    if (found > 0 && plan.vector_bytes < count / plan.repeat * bytes) break;  // one load no longer
    found = count;
    if (!run_axis.is_wide) break;
  }
  return found;
}

}  // namespace

Along along(const ir::Graph& graph, const Loops& loops, std::span<const ValueId> backward_slice, RunAxis run_axis,
            const Tuning& tuning) {
  Along result;
  int smallest = 16, repeated = 0;
  std::int64_t alignment = 16;
  for (ValueId id : backward_slice) {
    const Value& load = loops.values[id];
    if (load.kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(load.node).type.dtype);
    if (index::stride_of(load.offset, run_axis.axis) != 1) {
      const int count = chunk_of_repeated(graph, loops, id, run_axis, tuning);
      repeated = std::max(repeated, count);
      if (count > 0) result.bytes += static_cast<double>(segment::elements_touched(loops, load)) * bytes;
      continue;
    }
    result.bytes += static_cast<double>(segment::elements_touched(loops, load)) * bytes;
    smallest = std::min(smallest, bytes);
    if (const auto count = widest_run(graph, loops, load, run_axis))
      alignment = std::min<std::int64_t>(alignment, *count);
  }
  if (result.bytes == 0) return result;
  result.elements = static_cast<int>(
      std::min<std::int64_t>(std::min(tuning.vector_bytes.value_or(16) / smallest, kMostOfAChunk), alignment));
  result.elements = std::max(result.elements, repeated);
  return result;
}

void PartAccesses::plan(const Loops& loops, std::span<const ValueId> values, int axis, int elements) {
  part_.vector_axis = axis;
  part_.chunk_size = elements;
  for (ValueId id : values) {
    if (loops_.values[id].kind != Value::Kind::load) continue;
    // Two parts that read one value each have it element by element.
    const AccessPlan alone = {AccessKind::element,
                              std::max(4, size_of(graph_.node(loops_.values[id].node).type.dtype))};
    loads_[id] = planned_[id] ? alone : plan_load(graph_, loops, tuning_, part_, id);
    planned_[id] = true;
  }
}

void PartAccesses::add(std::span<const ValueId> values, int axis, int elements) {
  plan(loops_, values, axis, elements);
}

void PartAccesses::add_results(std::span<const ValueId> values, int axis, int elements) {
  plan(loops_, values, axis, elements);
  plan_stores(graph_, loops_, tuning_, part_);
}

void PartAccesses::add_tile_operand(std::span<const ValueId> values, std::span<const int> axes,
                                    const TileOperand& tile_operand) {
  const Loops merged = tile_operand.flattened ? segment::with_axes_merged(loops_, axes, axes.back()) : loops_;
  std::vector<ValueId> alone;  // what no other part has read before
  for (ValueId id : values) {
    if (loops_.values[id].kind == Value::Kind::load && !planned_[id]) alone.push_back(id);
  }
  // As where reduction axes are merged: elements may serve several neighbours.
  part_.transforms.merged_reduction_axes = tile_operand.flattened ? static_cast<int>(axes.size()) : 1;
  plan(merged, values, axes.back(), tile_operand.elements);
  part_.transforms.merged_reduction_axes = 1;
  for (ValueId id : alone) {
    const auto unaligned = loads_[id].kind == AccessKind::element
                               ? unaligned_access(graph_, merged, merged.values[id], axes.back(), tile_operand.elements)
                               : std::nullopt;
    if (unaligned) loads_[id] = *unaligned;
  }
}

void PartAccesses::write(Schedule& schedule) {
  schedule.loads = loads_;
  schedule.stores = part_.stores;
  share_word_types(graph_, loops_, schedule);
}

bool is_double_buffered(int words, std::int64_t chunks) {
  constexpr int kMostWords = 24;
  return words > 0 && words * chunks <= kMostWords;
}

int loads_in_flight(int chunks) {
  constexpr int kMost = 7;
  if (chunks <= kMost) return chunks;
  int together = kMost;
  while (chunks % together != 0) --together;
  return together == 1 ? chunks : together;
}

bool has_few_registers(const Target& target) {
  constexpr std::uint32_t kFew = 64;  // 32 of them are sums and scores of an attention
  return target.caps.registers.per_thread <= kFew;
}

double cost_of(const ir::Graph& graph, const Loops& loops, std::span<const ValueId> values) {
  double cost = 0;
  for (ValueId id : values) {
    if (loops.values[id].kind == Value::Kind::compute) cost += cost_of(graph.node(loops.values[id].node));
  }
  return cost;
}

double cost_of_operand(const ir::Graph& graph, const Loops& loops, const Schedule& schedule, ValueId operand) {
  constexpr double kOfNumber = 3;  // a bitwise instruction, of which GPUs do half as many at a time, and a difference
  std::vector<ValueId> numbers;
  for (const ValueId id : backward_slice_of(loops, operand)) {
    const auto field = sub_byte_number_of(graph, loops, id);
    if (field && field->shift && schedule.loads[field->load].kind == AccessKind::vector) numbers.push_back(id);
  }
  const std::vector<ValueId> computed = backward_slice_of(loops, operand, numbers);
  const auto is_read = [&](ValueId number) {
    return number == operand || std::ranges::any_of(computed, [&](ValueId id) {
             return std::ranges::find(loops.values[id].operands, number) != loops.values[id].operands.end();
           });
  };
  return cost_of(graph, loops, computed) + kOfNumber * static_cast<double>(std::ranges::count_if(numbers, is_read));
}

segment::AxisSet set_of(std::span<const int> axes) {
  segment::AxisSet all = 0;
  for (int axis : axes) all |= segment::AxisSet{1} << axis;
  return all;
}

std::int64_t count_along(const Loops& loops, std::span<const int> axes) {
  std::int64_t count = 1;
  for (int axis : axes) count *= loops.axes[static_cast<std::size_t>(axis)].size;
  return count;
}

namespace {

/// Adds what a value is computed from to `in`, up to folds and what is hoisted.
void mark_backward_slice(const Loops& loops, ValueId value, std::span<const ValueId> stops, std::vector<bool>& in) {
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    const Value& one = loops.values[id];
    if (in[id] || one.kind == Value::Kind::reduction || one.kind == Value::Kind::epilogue || one.hoisted ||
        std::find(stops.begin(), stops.end(), id) != stops.end())
      continue;
    in[id] = true;
    open.insert(open.end(), one.operands.begin(), one.operands.end());
    open.insert(open.end(), one.data.begin(), one.data.end());
  }
}

std::vector<ValueId> listed(const std::vector<bool>& in) {
  std::vector<ValueId> all;
  for (ValueId id = 0; id < in.size(); ++id) {
    if (in[id]) all.push_back(id);
  }
  return all;
}

}  // namespace

std::vector<ValueId> backward_slice_of_results(const Loops& loops) {
  std::vector<bool> in(loops.values.size(), false);
  for (const segment::Store& store : loops.stores) mark_backward_slice(loops, store.value, {}, in);
  for (const Value& value : loops.values) {
    if (value.kind == Value::Kind::epilogue) mark_backward_slice(loops, value.operands[0], {}, in);
  }
  return listed(in);
}

std::vector<ValueId> backward_slice_of(const Loops& loops, ValueId value, std::span<const ValueId> stops) {
  std::vector<bool> in(loops.values.size(), false);
  mark_backward_slice(loops, value, stops, in);
  return listed(in);
}

segment::ValueId sub32_value(const ir::Graph& graph, const Loops& loops, ValueId id) {
  for (;;) {
    const Value& value = loops.values[id];
    const ir::Node& node = graph.node(value.node);
    const DType dtype = node.type.dtype;
    if (value.kind != Value::Kind::compute || ops::element_row(*node.op).name != "cast" ||
        (dtype != DType::f32 && dtype != DType::i32))
      return id;
    const DType from = graph.node(loops.values[value.operands[0]].node).type.dtype;
    const bool kept =
        dtype == DType::i32 ? is_integer(from) && size_of(from) < 4 : size_of(from) < 4 && from != DType::boolean;
    if (!kept) return id;
    id = value.operands[0];
  }
}

std::optional<DType> sub32_dtype(const ir::Graph& graph, const Loops& loops, ValueId id, bool unscaled) {
  const Value& value = loops.values[sub32_value(graph, loops, id)];
  const DType dtype = graph.node(value.node).type.dtype;
  if (dtype == DType::bf16 || dtype == DType::i8 || dtype == DType::u8) return dtype;
  const bool suits =
      dtype == DType::f16 && (!unscaled || value.kind == Value::Kind::load || value.kind == Value::Kind::literal);
  return suits ? std::optional(dtype) : std::nullopt;
}

namespace {

/// Of axes counted as one, outermost first: between neighbours in memory; nothing where that is not the same
/// everywhere.
std::optional<std::int64_t> one_stride(const Loops& loops, const index::Expr& offset, std::span<const int> axes) {
  std::optional<std::int64_t> stride;
  std::int64_t next = 0;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto own = index::stride_of(offset, axes[i]);
    if (!own || (stride && *own != next)) return std::nullopt;
    if (!stride) stride = own;
    next = *own * loops.axes[static_cast<std::size_t>(axes[i])].size;
  }
  return stride;
}

}  // namespace

std::optional<std::int64_t> row_stride(const Loops& loops, const index::Expr& offset, std::span<const int> across,
                                       std::span<const int> along, int per_vector) {
  const auto stride = one_stride(loops, offset, across);
  if (!stride || *stride <= 0 || *stride % per_vector != 0 || one_stride(loops, offset, along) != 1)
    return std::nullopt;
  std::map<index::AxisId, index::Expr> corner;
  for (const std::span<const int> axes : {across, along}) {
    for (int axis : axes) corner.emplace(axis, index::Expr(0));
  }
  return index::alignment_of(index::substitute(offset, corner), per_vector) >= per_vector ? stride : std::nullopt;
}

}  // namespace vkfuse::schedule
