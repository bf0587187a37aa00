#include "reference/evaluation.hpp"

#include <algorithm>
#include <numeric>

#include "reference/dot.hpp"
#include "reference/lines.hpp"

namespace vkfuse::reference {

namespace {

using ops::OpClass;
using Way = Plan::Way;

// Nanoseconds of one element, by what computes it: measured on one core of a server.
constexpr double kView = 10, kElementwise = 60, kReduced = 20, kOther = 120, kProduct = 1.2;
constexpr double kByRequest = 8;         // how much longer an element takes when it is asked for alone
constexpr std::int64_t kLargeParts = 8;  // a value that takes this part of the memory, or more, is large

bool is_leaf(const ir::Node& node) { return node.op->cls == OpClass::input || node.op->cls == OpClass::constant; }
bool is_elementwise(const ir::Node& node) {
  return node.op->cls == OpClass::elementwise || node.op->cls == OpClass::convert;
}

/// Whether computing an element once more is no work to speak of. The user's own code may be.
bool is_cheap(const ir::Node& node) {
  const OpClass cls = node.op->cls;
  return (is_elementwise(node) || cls == OpClass::view || cls == OpClass::generate) &&
         !std::holds_alternative<ir::CustomPayload>(node.payload);
}

class Planner {
 public:
  Planner(const ir::Graph& graph, std::int64_t memory_bytes) : graph_(graph), memory_(memory_bytes) {}

  Result<Plan> plan(std::span<const Request> requests, const InputBindings& input_bindings) {
    VKF_CHECK_OK(reach(requests, input_bindings));
    choose_ways(requests);
    avoid_large_views();
    measure_peak();
    if (plan_.peak_bytes > memory_) {
      compute_large_again();
      measure_peak();
    }
    if (plan_.peak_bytes > memory_) {
      for (Way& way : plan_.ways) way = way == Way::none ? Way::none : Way::requested;
      plan_.peak_bytes = 0;
    }
    add_costs();
    return std::move(plan_);
  }

 private:
  Result<void> reach(std::span<const Request> requests, const InputBindings& input_bindings);
  void choose_ways(std::span<const Request> requests);
  [[nodiscard]] double requested_of(ir::NodeId id, std::size_t operand) const;
  void avoid_large_views();
  [[nodiscard]] std::vector<int> reader_counts() const;
  void compute_large_again();
  void measure_peak();
  void add_costs();
  [[nodiscard]] double length_of(ir::NodeId id) const;
  [[nodiscard]] double count(ir::NodeId id) const { return static_cast<double>(plan_.counts[id]); }
  [[nodiscard]] bool is_large(ir::NodeId id) const { return plan_.counts[id] > memory_ / kLargeParts / kDenseBytes; }

  const ir::Graph& graph_;
  std::int64_t memory_;
  Plan plan_;
  std::vector<double> requested_;  ///< elements of each node
};

Result<void> Planner::reach(std::span<const Request> requests, const InputBindings& input_bindings) {
  ir::NodeId end = 0;
  for (const Request& request : requests) end = std::max(end, request.value + 1);
  plan_.sizes.resize(end);
  plan_.counts.assign(end, 0);
  plan_.ways.assign(end, Way::none);
  for (const Request& request : requests) plan_.ways[request.value] = Way::requested;
  for (ir::NodeId id = end; id-- > 0;) {
    if (plan_.ways[id] == Way::none) continue;
    const ir::Node& node = graph_.node(id);
    if (const auto* custom = std::get_if<ir::CustomPayload>(&node.payload);
        custom != nullptr && custom->function == nullptr) {
      return unsupported(
          "The custom op '{}' has no host function, so that what is computed from it has no reference and is not "
          "validated.",
          custom->name);
    }
    if (const auto* kernel = std::get_if<ir::KernelPayload>(&node.payload)) {
      return unsupported(
          "The custom kernel '{}' is known to the device alone, so that what is computed from it has no reference and "
          "is not validated.",
          kernel->name);
    }
    if (node.op->cls == ops::OpClass::collective) {
      return unsupported("'{}' is a value of several ranks, and the reference of one rank has no value for it.",
                         node.op->name);
    }
    VKF_TRY(resolved, resolve(node.type.shape, input_bindings.symbols));
    VKF_TRY(elements, element_count(resolved));
    plan_.sizes[id] = std::move(resolved);
    plan_.counts[id] = elements;
    for (const ir::NodeId operand : node.operands) plan_.ways[operand] = Way::requested;
  }
  return {};
}

/// How many elements of an operand an element of the result needs.
double Planner::length_of(ir::NodeId id) const {
  const ir::Node& node = graph_.node(id);
  const Sizes& operand = plan_.sizes[node.operands[0]];
  switch (node.op->cls) {
    case OpClass::reduce:
      return static_cast<double>(Fibers(operand, std::get<ir::AxesPayload>(node.payload).axes).length());
    case OpClass::contraction:
      return static_cast<double>(Digits(operand, std::get<ir::DotPayload>(node.payload).contract_a).count());
    case OpClass::scan:
      return static_cast<double>(operand[static_cast<std::size_t>(std::get<ir::ScanPayload>(node.payload).axis)]);
    case OpClass::sort:
      return static_cast<double>(operand[static_cast<std::size_t>(std::get<ir::SortPayload>(node.payload).axis)]);
    default: return 1;
  }
}

double Planner::requested_of(ir::NodeId id, std::size_t operand) const {
  const ir::NodeId from = graph_.node(id).operands[operand];
  if (plan_.ways[id] != Way::requested) return count(from);
  const bool all = graph_.node(id).op->cls == OpClass::scatter && operand > 0;
  return all ? count(from) : std::min(count(from), requested_[id] * length_of(id));
}

void Planner::choose_ways(std::span<const Request> requests) {
  requested_.assign(plan_.ways.size(), 0);
  for (const Request& request : requests)
    requested_[request.value] += request.indices ? static_cast<double>(request.indices->size()) : count(request.value);
  std::vector<bool> read_densely(plan_.ways.size(), false);
  for (ir::NodeId id = static_cast<ir::NodeId>(plan_.ways.size()); id-- > 0;) {
    if (plan_.ways[id] == Way::none) continue;
    requested_[id] = std::min(requested_[id], count(id));
    if (read_densely[id] || requested_[id] * kByRequest >= count(id)) plan_.ways[id] = Way::dense;
    const ir::Node& node = graph_.node(id);
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      requested_[node.operands[k]] += requested_of(id, k);
      if (plan_.ways[id] == Way::dense) read_densely[node.operands[k]] = true;
    }
  }
}

/// A view that repeats elements many times is read through where it is large: the windows of a convolution.
void Planner::avoid_large_views() {
  for (ir::NodeId id = 0; id < plan_.ways.size(); ++id) {
    if (plan_.ways[id] != Way::dense || graph_.node(id).op->cls != OpClass::view || !is_large(id)) continue;
    std::int64_t from = 0;
    for (const ir::NodeId operand : graph_.node(id).operands) from += plan_.counts[operand];
    if (plan_.counts[id] > 2 * from) plan_.ways[id] = Way::again;
  }
}

/// How many operands of other nodes each node is.
std::vector<int> Planner::reader_counts() const {
  std::vector<int> readers(plan_.ways.size(), 0);
  for (ir::NodeId id = 0; id < plan_.ways.size(); ++id) {
    if (plan_.ways[id] == Way::none) continue;
    for (const ir::NodeId operand : graph_.node(id).operands) ++readers[operand];
  }
  return readers;
}

/// Large values that one node reads are computed there, as long as that is no work to speak of. Reads are nested then,
/// but not as deep as a stack is.
void Planner::compute_large_again() {
  constexpr int kDeepestReads = 64;
  const std::vector<int> readers = reader_counts();
  std::vector<int> depth(plan_.ways.size(), 0);
  for (ir::NodeId id = 0; id < plan_.ways.size(); ++id) {
    if (plan_.ways[id] == Way::none) continue;
    const ir::Node& node = graph_.node(id);
    for (const ir::NodeId operand : node.operands) depth[id] = std::max(depth[id], depth[operand] + 1);
    const bool is_rather_large = plan_.counts[id] > memory_ / kLargeParts / kLargeParts / kDenseBytes;
    const bool is_again = plan_.ways[id] == Way::again ||
                          (plan_.ways[id] == Way::dense && readers[id] == 1 && is_cheap(node) && is_rather_large);
    if (is_again && depth[id] < kDeepestReads) plan_.ways[id] = Way::again;
    if (plan_.ways[id] != Way::again) depth[id] = 0;
  }
}

void Planner::measure_peak() {
  const std::size_t end = plan_.ways.size();
  std::vector<ir::NodeId> holder(end), last(end);  // what has the elements of a node, and who reads those last
  std::vector<std::vector<ir::NodeId>> ends(end);
  std::iota(holder.begin(), holder.end(), ir::NodeId{0});
  std::iota(last.begin(), last.end(), ir::NodeId{0});
  for (ir::NodeId id = 0; id < end; ++id) {
    if (plan_.ways[id] == Way::none) continue;
    const ir::Node& node = graph_.node(id);
    if (node.op->role == ops::Role::reshape) holder[id] = holder[node.operands[0]];
    for (const ir::NodeId operand : node.operands) last[holder[operand]] = id;
  }
  // What is computed where it is read needs its operands as long.
  for (ir::NodeId id = static_cast<ir::NodeId>(end); id-- > 0;) {
    if (plan_.ways[id] != Way::again) continue;
    for (const ir::NodeId operand : graph_.node(id).operands)
      last[holder[operand]] = std::max(last[holder[operand]], last[holder[id]]);
  }
  for (ir::NodeId id = 0; id < end; ++id) ends[last[id]].push_back(id);
  const auto bytes = [&](ir::NodeId id) {
    const bool is_held = plan_.ways[id] == Way::dense && !is_leaf(graph_.node(id)) && holder[id] == id;
    return is_held ? count(id) * static_cast<double>(kDenseBytes) : 0;
  };
  double now = 0, peak = 0;
  for (ir::NodeId id = 0; id < end; ++id) {
    now += bytes(id);
    peak = std::max(peak, now);
    for (const ir::NodeId ended : ends[id]) now -= bytes(ended);
  }
  plan_.peak_bytes = static_cast<std::int64_t>(std::min(peak, 0x1p62));
}

void Planner::add_costs() {
  for (ir::NodeId id = 0; id < plan_.ways.size(); ++id) {
    const ir::Node& node = graph_.node(id);
    if (plan_.ways[id] == Way::none || is_leaf(node)) continue;
    double each = kOther;
    if (is_elementwise(node)) each = kElementwise;
    if (node.op->cls == OpClass::view || node.op->cls == OpClass::generate) each = kView;
    if (node.op->cls == OpClass::reduce) each = kReduced * length_of(id);
    if (node.op->cls == OpClass::contraction) each = kProduct * length_of(id) * (is_dense_dot(node) ? 1 : kReduced);
    const bool by_request = plan_.ways[id] == Way::requested;
    plan_.nanoseconds += each * (by_request ? kByRequest * requested_[id] : count(id));
  }
}

}  // namespace

Result<Plan> plan_evaluation(const ir::Graph& graph, std::span<const Request> requests,
                             const InputBindings& input_bindings, std::int64_t memory_bytes) {
  return Planner(graph, memory_bytes).plan(requests, input_bindings);
}

}  // namespace vkfuse::reference
