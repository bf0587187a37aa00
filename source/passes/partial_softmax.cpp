// Softmax statistics of a contraction's rows that come in parts: every block of a row leaves its largest element, the
// sum of exponentials below it, and what is asked of it at a position, as a cross-entropy asks for the logit of its
// label. A kernel that computes blocks of rows leaves these beside nothing else: the rows are never stored.
//   Milakov, Gimelshein: Online normalizer calculation for softmax (2018), with equal parts.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/mutations.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;

/// Elements of a row that leave statistics of their own.
constexpr std::int64_t kBlocks[] = {64, 32};
constexpr std::size_t kMostSteps = 256;  ///< of a search

bool is_reduction_of_rows(const Graph& graph, NodeId id, ops::Role op) {
  const Node& node = graph.node(id);
  if (node.op->role != op) return false;
  const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
  return axes.size() == 1 && axes[0] == static_cast<int>(graph.node(node.operands[0]).type.shape.size()) - 1;
}

/// Rows, their largest element, the sum of exponentials, and what is taken from them at positions of their own.
struct Softmax {
  NodeId of = 0, most = 0, total = 0;
  std::int64_t block = 0;
  std::vector<NodeId> taken;  ///< take_along of what is computed from the rows element by element
};

/// Elements of a block that rows of so many are whole numbers of; 0 where there is none.
std::int64_t block_of(std::int64_t elements) {
  const auto* block = std::find_if(std::begin(kBlocks), std::end(kBlocks),
                                   [&](std::int64_t size) { return elements % size == 0 && elements > size; });
  return block == std::end(kBlocks) ? 0 : *block;
}

/// Whether a shape is that of the rows with one element in each.
bool has_one_per_row(const Shape& shape, const Shape& rows) {
  return shape.size() == rows.size() && shape.back() == Dim(1) &&
         std::equal(shape.begin(), shape.end() - 1, rows.begin());
}

class SoftmaxFinder {
 public:
  explicit SoftmaxFinder(const Graph& graph) : graph_(graph), users_(graph.users()), is_output_(graph.size(), false) {
    for (const ir::Output& output : graph.outputs()) is_output_[output.value] = true;
  }

  /// With this sum, where nothing else is made of the rows.
  std::optional<Softmax> softmax_of(NodeId total) const {
    auto all = match_sum_of_exponentials(total);
    if (!all) return std::nullopt;
    const TensorType& rows = graph_.node(all->of).type;
    if (rows.shape.back().is_symbol() || !is_float(rows.dtype) || rows.dtype == DType::f64) return std::nullopt;
    all->block = block_of(rows.shape.back().size());
    if (all->block == 0 || !comes_from_contraction(all->of) || !find_taken(*all)) return std::nullopt;
    return all;
  }

 private:
  /// The sum of exp(rows - their largest element).
  std::optional<Softmax> match_sum_of_exponentials(NodeId total) const {
    if (!is_reduction_of_rows(graph_, total, ops::Role::reduce_sum)) return std::nullopt;
    const Node& power = graph_.node(graph_.node(total).operands[0]);
    if (power.op->role != ops::Role::exp) return std::nullopt;
    const Node& below = graph_.node(power.operands[0]);
    if (below.op->role != ops::Role::sub) return std::nullopt;
    const NodeId rows = below.operands[0];
    const Node& view = graph_.node(below.operands[1]);
    if (view.op->role != ops::Role::reshape || !is_reduction_of_rows(graph_, view.operands[0], ops::Role::reduce_max))
      return std::nullopt;
    const NodeId most = view.operands[0];
    if (graph_.node(most).operands[0] != rows || !has_one_per_row(view.type.shape, graph_.node(rows).type.shape))
      return std::nullopt;
    Softmax all;
    all.of = rows;
    all.most = most;
    all.total = total;
    return all;
  }

  bool comes_from_contraction(NodeId id) const {
    std::vector<NodeId> open{id};
    std::set<NodeId> seen;
    while (!open.empty() && seen.size() < kMostSteps) {
      const NodeId one = open.back();
      open.pop_back();
      if (!seen.insert(one).second) continue;
      const Node& node = graph_.node(one);
      if (node.op->cls == ops::OpClass::contraction) return true;
      if (is_elementwise(node)) open.insert(open.end(), node.operands.begin(), node.operands.end());
    }
    return false;
  }

  /// What a node makes of the rows, or of what is computed from them element by element.
  enum class Use : std::uint8_t { reduced, taken, elementwise, other };
  Use use_of(const Softmax& all, NodeId id, NodeId user, const std::set<NodeId>& seen) const {
    const Node& node = graph_.node(user);
    const Shape& shape = graph_.node(all.of).type.shape;
    if (user == all.most || user == all.total) return Use::reduced;
    if (node.op->role == ops::Role::take_along && node.operands[0] == id && node.operands[1] != id)
      return takes_one_per_row(node, shape) ? Use::taken : Use::other;
    if (!is_elementwise(node) || node.type.shape != shape) return Use::other;
    // The operands beside are one number a row, or one for all.
    const auto is_beside = [&](NodeId operand) {
      const Shape& other = graph_.node(operand).type.shape;
      return operand == id || seen.count(operand) != 0 || other.empty() || other.back() == Dim(1);
    };
    return std::all_of(node.operands.begin(), node.operands.end(), is_beside) ? Use::elementwise : Use::other;
  }

  bool takes_one_per_row(const Node& node, const Shape& rows) const {
    return std::get<ir::AxisPayload>(node.payload).axis == static_cast<int>(rows.size()) - 1 &&
           node.type.shape.back() == Dim(1) && graph_.node(node.operands[1]).type.shape == node.type.shape;
  }

  /// Everything that is computed from the rows ends in one of the two reductions or is taken from them at a position.
  bool find_taken(Softmax& all) const {
    std::vector<NodeId> open{all.of};
    std::set<NodeId> seen;
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!seen.insert(id).second) continue;
      if (is_output_[id] || seen.size() > kMostSteps) return false;
      for (const NodeId user : users_[id]) {
        const Use use = use_of(all, id, user, seen);
        if (use == Use::other) return false;
        if (use == Use::elementwise) open.push_back(user);
        if (use == Use::taken && std::find(all.taken.begin(), all.taken.end(), user) == all.taken.end())
          all.taken.push_back(user);
      }
    }
    return true;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
};

class Splitter {
 public:
  explicit Splitter(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Result<std::optional<Rewritten>> run() {
    const SoftmaxFinder finder(graph_);
    std::map<NodeId, Softmax> by_most, by_total, by_taken;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto one = finder.softmax_of(id);
      if (!one || by_most.count(one->most) != 0) continue;
      by_most.emplace(one->most, *one);
      by_total.emplace(id, *one);
      for (const NodeId taken : one->taken) by_taken.emplace(taken, *one);
    }
    if (by_most.empty()) return std::optional<Rewritten>();
    for (NodeId id = 0; id < graph_.size(); ++id) {
      Result<NodeId> made = NodeId{0};
      if (const auto most = by_most.find(id); most != by_most.end()) {
        made = largest(most->second);
      } else if (const auto total = by_total.find(id); total != by_total.end()) {
        made = sum_of_exponentials(total->second);
      } else if (const auto taken = by_taken.find(id); taken != by_taken.end()) {
        made = element_at(taken->second, id);
      } else {
        VKF_CHECK_OK(rewriter_.keep(id));
        continue;
      }
      if (!made) return std::move(made).error();
      rewriter_.alias(id, *made);
    }
    VKF_TRY(split, rewriter_.finish_with_places());
    VKF_TRY(live, without_dead(std::move(split)));
    return std::optional(std::move(live));
  }

 private:
  /// What parts of rows have left, in f32: [rows.., blocks].
  struct Parts {
    NodeId rows = 0;  ///< [rows.., blocks, block]
    NodeId most = 0;
    NodeId whole_most = 0;  ///< [rows..]
  };

  Graph& to() { return rewriter_.graph(); }
  /// With one more axis, of one element.
  Result<NodeId> widened(NodeId value) {
    Shape shape = to().node(value).type.shape;
    shape.emplace_back(1);
    return rewriter_.reshape(value, std::move(shape));
  }

  /// Made where they are asked for first: an element may be taken before the maximum is found.
  Result<Parts> parts_of(const Softmax& softmax) {
    const auto known = parts_.find(softmax.most);
    if (known != parts_.end()) return known->second;
    Shape blocks = graph_.node(softmax.of).type.shape;
    blocks.back() = Dim(blocks.back().size() / softmax.block);
    blocks.emplace_back(softmax.block);
    VKF_TRY(wide, rewriter_.cast(rewriter_.at(softmax.of), DType::f32));
    VKF_TRY(rows, rewriter_.reshape(wide, blocks));
    VKF_TRY(most, rewriter_.reduce_rows("reduce_max", rows));
    VKF_TRY(whole, rewriter_.reduce_rows("reduce_max", most));
    return parts_.emplace(softmax.most, Parts{rows, most, whole}).first->second;
  }

  Result<NodeId> largest(const Softmax& softmax) {
    VKF_TRY(parts, parts_of(softmax));
    return rewriter_.cast(parts.whole_most, graph_.node(softmax.most).type.dtype);
  }

  /// A block without anything above -infinity has no exponentials, whatever others of its row have.
  Result<NodeId> sum_of_exponentials(const Softmax& softmax) {
    VKF_TRY(parts, parts_of(softmax));
    const NodeId lowest = to().add_scalar(DType::f32, -std::numeric_limits<double>::infinity());
    const NodeId zero = to().add_scalar(DType::f32, 0);
    VKF_TRY(nothing, rewriter_.op("eq", {parts.most, lowest}));
    VKF_TRY(base, rewriter_.op("select", {nothing, zero, parts.most}));
    VKF_TRY(below, widened(base));
    VKF_TRY(fallen, rewriter_.op("sub", {parts.rows, below}));
    VKF_TRY(powers, rewriter_.op("exp", {fallen}));
    VKF_TRY(sums, rewriter_.reduce_rows("reduce_sum", powers));
    VKF_TRY(whole, widened(parts.whole_most));
    VKF_TRY(behind, rewriter_.op("sub", {parts.most, whole}));
    VKF_TRY(scale, rewriter_.op("exp", {behind}));
    VKF_TRY(scaled, rewriter_.op("mul", {sums, scale}));
    VKF_TRY(total, rewriter_.reduce_rows("reduce_sum", VKF_PLANT(parts_not_rescaled, scaled, sums)));
    return rewriter_.cast(total, graph_.node(softmax.total).type.dtype);
  }

  /// One element of the rows is a sum in which nothing else is left; what is computed from it is computed of it alone.
  Result<NodeId> element_at(const Softmax& softmax, NodeId taken) {
    VKF_TRY(parts, parts_of(softmax));
    const Node& node = graph_.node(taken);
    const NodeId positions = rewriter_.at(node.operands[1]);
    const DType index = to().node(positions).type.dtype;
    const std::int64_t columns = graph_.node(softmax.of).type.shape.back().size();
    const NodeId first = to().add_scalar(index, 0);
    const NodeId last = to().add_scalar(index, static_cast<double>(columns - 1));
    VKF_TRY(above, rewriter_.op("max", {positions, first}));
    VKF_TRY(inside, rewriter_.op("min", {above, last}));
    VKF_TRY(at, widened(inside));  // [rows.., 1, 1]
    VKF_TRY(iota, to().add_iota({index, {Dim(columns)}}, 0));
    VKF_TRY(place, rewriter_.reshape(iota, {Dim(columns / softmax.block), Dim(softmax.block)}));
    VKF_TRY(here, rewriter_.op("eq", {place, at}));
    const NodeId zero = to().add_scalar(DType::f32, 0);
    VKF_TRY(left, rewriter_.op("select", {here, parts.rows, zero}));
    VKF_TRY(sums, rewriter_.reduce_rows("reduce_sum", left));
    VKF_TRY(whole, rewriter_.reduce_rows("reduce_sum", sums));
    VKF_TRY(element, rewriter_.reshape(whole, node.type.shape));
    VKF_TRY(rounded, rewriter_.cast(element, graph_.node(softmax.of).type.dtype));
    std::map<NodeId, NodeId> copies{{softmax.of, rounded}};
    return copy_of(node.operands[0], graph_.node(softmax.of).type.shape, copies);
  }

  Result<NodeId> copy_of(NodeId id, const Shape& of_rows, std::map<NodeId, NodeId>& copies) {
    const auto known = copies.find(id);
    if (known != copies.end()) return known->second;
    const Node& node = graph_.node(id);
    if (node.type.shape != of_rows) return rewriter_.at(id);
    std::vector<NodeId> operands;
    for (const NodeId operand : node.operands) {
      VKF_TRY(copy, copy_of(operand, of_rows, copies));
      operands.push_back(copy);
    }
    VKF_TRY(made, ir::append_copy(to(), node, operands));
    copies.emplace(id, made);
    return made;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<NodeId, Parts> parts_;  ///< by the maximum
};

}  // namespace

Result<std::optional<Rewritten>> split_softmax(const Graph& graph) { return Splitter(graph).run(); }

}  // namespace vkfuse::passes
