#include "schedule/traffic.hpp"

#include <algorithm>
#include <map>

#include "device_model/device_model.hpp"
#include "index/arithmetic.hpp"
#include "schedule/access.hpp"

namespace vkfuse::schedule {

using index::Expr;
using segment::Loops;
using segment::Value;

std::int64_t instructions(const AccessPlan& plan, int element_bytes, int elements) {
  switch (plan.kind) {
    case AccessKind::vector:
      return ceil_div(static_cast<std::int64_t>(elements / plan.repeat) * element_bytes, plan.vector_bytes);
    case AccessKind::element: return elements;
    case AccessKind::unaligned: return words_around(plan, elements);
    default: return 1;
  }
}

std::int64_t lines(const AccessPlan& plan, int element_bytes, int elements, int subgroup) {
  const std::int64_t bytes = static_cast<std::int64_t>(elements) * element_bytes * subgroup;
  switch (plan.kind) {
    case AccessKind::vector:
    case AccessKind::unaligned: return std::max<std::int64_t>(1, ceil_div(bytes * plan.step, 128));
    case AccessKind::element: return std::max<std::int64_t>(elements, ceil_div(bytes, 128));
    default: return 1;
  }
}

double sector_overhead(std::int64_t run_bytes) {
  constexpr std::int64_t kSector = 32;
  if (run_bytes % kSector == 0) return 1;
  if (kSector % run_bytes == 0)
    return static_cast<double>(kSector) / static_cast<double>(run_bytes);  // aligned, as powers of two are
  return static_cast<double>(run_bytes + kSector - 1) / static_cast<double>(run_bytes);
}

namespace {

/// The same of one access of all chunks.
double access_overhead(const Loops& loops, const Schedule& schedule, const Expr& offset, const AccessPlan& plan,
                       int element_bytes) {
  if (plan.kind == AccessKind::uniform || plan.kind == AccessKind::scalar || schedule.vector_axis < 0) return 1;
  const auto stride = index::stride_of(offset, schedule.vector_axis);
  if (!stride) return sector_overhead(element_bytes);
  if (*stride == 0) return 1;
  // Neighbours that are near each other share sectors even so.
  if (std::abs(*stride) > 1) return std::min(sector_overhead(element_bytes), static_cast<double>(std::abs(*stride)));
  std::int64_t run = element_bytes;
  std::int64_t next = *stride;
  for (int axis = schedule.vector_axis; axis >= 0 && index::stride_of(offset, axis) == next; --axis) {
    run *= loops.axes[static_cast<std::size_t>(axis)].size;
    next *= loops.axes[static_cast<std::size_t>(axis)].size;
  }
  return sector_overhead(run);
}

/// Two atomic operations store each element that shares a word with another thread's.
constexpr double kSharedWordOverhead = 8;

double cached_bytes(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  double all = 0;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& load = loops.values[i];
    if (load.kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(load.node).type.dtype);
    const AccessPlan& plan = schedule.loads[i];
    // Where data decides, neighbours may be anywhere: taken to be near.
    const double overhead = !load.data.empty() ? 1.0
                            : plan.kind == AccessKind::transposed
                                ? sector_overhead(plan.run * bytes)
                                : access_overhead(loops, schedule, load.offset, plan, bytes);
    all += static_cast<double>(segment::elements_touched(loops, load)) * bytes * overhead;
  }
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    const segment::Store& store = loops.stores[i];
    const int bytes = size_of(graph.node(store.node).type.dtype);
    double overhead = access_overhead(loops, schedule, store.offset, schedule.stores[i], bytes);
    const bool shares_words = schedule.stores[i].kind == AccessKind::element && bytes < 4 &&
                              !stores_sub32(graph, loops, target, schedule, store.node);
    if (shares_words) overhead = std::max(overhead, kSharedWordOverhead);
    all += static_cast<double>(element_count_of(loops, store.offset)) * bytes * overhead;
  }
  return all;
}

}  // namespace

double bytes_of_strided_results(const ir::Graph& graph, const Loops& loops, const Schedule& schedule, int axis) {
  double all = 0;
  const auto add = [&](const Expr& offset, const AccessPlan& plan, ir::NodeId node) {
    const auto stride = index::stride_of(offset, axis);
    if (plan.kind != AccessKind::element || !stride || std::abs(*stride) <= 1) return;
    const int bytes = size_of(graph.node(node).type.dtype);
    const double overhead = std::min(sector_overhead(bytes), static_cast<double>(std::abs(*stride)));
    all += static_cast<double>(element_count_of(loops, offset)) * bytes * (overhead - 1);
  };
  for (std::size_t i = 0; i < loops.stores.size(); ++i)
    add(loops.stores[i].offset, schedule.stores[i], loops.stores[i].node);
  for (segment::ValueId id : backward_slice_of_results(loops)) {
    const Value& value = loops.values[id];
    if (value.kind == Value::Kind::load && value.data.empty()) add(value.offset, schedule.loads[id], value.node);
  }
  return all;
}

double traffic(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  // The caches of a GPU hand out sectors faster than its memory does. A CPU computes elements one
  // by one, wherever they are.
  const auto moved = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written);
  return target.type == DeviceType::cpu ? moved
                                        : std::max(moved, cached_bytes(graph, loops, target, schedule) /
                                                              device_model(target).caches.sector_bandwidth);
}

bool stores_sub32(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule,
                  ir::NodeId node) {
  const int bytes = size_of(graph.node(node).type.dtype);
  const bool offered = target.has(FeatureTier::float16) &&
                       (bytes == 2 ? target.caps.memory.storage_16bit : bytes == 1 && target.caps.memory.storage_8bit);
  const auto reads = [&](const Value& value) { return value.kind == Value::Kind::load && value.node == node; };
  if (!offered || std::any_of(loops.values.begin(), loops.values.end(), reads)) return false;
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    if (loops.stores[i].node == node && schedule.stores[i].kind == AccessKind::vector) return false;
  }
  return true;
}

/// No kernel moves more than this, 2^50 bytes: larger sizes are refused, but added up before.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

void count_bytes(const ir::Graph& graph, const Loops& loops, Schedule& schedule) {
  std::map<ir::NodeId, std::int64_t> touched;
  for (const Value& value : loops.values) {
    if (value.kind != Value::Kind::load) continue;
    const std::int64_t own = segment::elements_touched(loops, value);
    std::int64_t& all = touched[value.node];
    all = std::min(value.buffer_elements, index::saturating_add(all, own));
  }
  schedule.cost.bytes_read = 0;
  schedule.cost.bytes_written = 0;
  for (const auto& [node, elements] : touched)
    schedule.cost.bytes_read = index::saturating_add(
        schedule.cost.bytes_read, index::saturating_mul(elements, size_of(graph.node(node).type.dtype)));
  for (const segment::Store& store : loops.stores) {
    const std::int64_t bytes =
        index::saturating_mul(element_count_of(loops, store.offset), size_of(graph.node(store.node).type.dtype));
    schedule.cost.bytes_written = index::saturating_add(schedule.cost.bytes_written, bytes);
  }
  schedule.cost.bytes_read = std::min(schedule.cost.bytes_read, kMostBytes);
  schedule.cost.bytes_written = std::min(schedule.cost.bytes_written, kMostBytes);
}

double cost_of(const ir::Node& node) {
  const auto* custom = std::get_if<ir::CustomPayload>(&node.payload);
  return custom != nullptr ? custom->cost : static_cast<double>(node.op->cost);
}

double compute_cost(const ir::Graph& graph, const Loops& loops, double visited, segment::AxisSet rows) {
  double cost = 0;
  for (const Value& value : loops.values) {
    const bool computes = value.kind == Value::Kind::compute || value.kind == Value::Kind::reduction ||
                          value.kind == Value::Kind::nested || value.kind == Value::Kind::scan ||
                          value.kind == Value::Kind::position;
    if (!computes) continue;
    double evaluations = 1;
    segment::AxisSet axes = value.kind == Value::Kind::reduction ? ~loops.inner()
                            : value.kind == Value::Kind::nested  ? value.axes | value.over
                                                                 : value.axes;
    if ((axes & loops.columns()) != 0) axes |= rows;
    for (std::size_t i = 0; i < loops.axes.size(); ++i)
      evaluations *= ((axes >> i) & 1u) != 0 ? static_cast<double>(loops.axes[i].size) : 1.0;
    if ((axes & loops.columns()) != 0) evaluations *= visited;
    const ops::OpRow& op = *graph.node(value.node).op;
    // A product and its sum are one multiply-add.
    if (value.kind == Value::Kind::compute && !op.reduction.of.empty()) continue;
    cost += evaluations * cost_of(graph.node(value.node));
  }
  return cost;
}

double modelled_us(const CostModel& costs, int dispatches, double traffic, double compute, std::int64_t accesses) {
  const double memory_us = traffic / (costs.copy_gb_per_s * 1e3);
  const double compute_us = compute / (costs.gflops * 1e3) + static_cast<double>(accesses) / costs.accesses_per_us;
  return dispatches * costs.launch_us + std::max(memory_us, compute_us) + 0.05 * std::min(memory_us, compute_us);
}

bool leaves_idle(const Target& target, std::int64_t threads) {
  constexpr double kMost = 0.25;  // of what it runs at a time
  const ComputeUnits& units = device_model(target).units;
  return target.type != DeviceType::cpu && static_cast<double>(threads) < kMost * units.count * units.threads;
}

}  // namespace vkfuse::schedule
