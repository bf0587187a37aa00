// Norms after contractions whose statistics come in parts: every block of a row leaves its mean and its mean square
// around that, and who needs the norm joins the parts. A kernel that computes blocks of rows, as a tile of a matrix
// product is, can then leave them beside its results, and the norm needs no kernel of its own.
//   Chan, Golub, LeVeque: Updating Formulae and a Pairwise Algorithm for Computing Sample Variances (1979), for equal
//   parts.
#include <algorithm>
#include <map>
#include <set>

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

bool moves_elements(const Node& node) {
  return node.op->role == ops::Role::reshape || node.op->role == ops::Role::permute ||
         node.op->role == ops::Role::slice || node.op->role == ops::Role::broadcast;
}

/// The length of the rows that a mean is of; 0 for anything else.
std::int64_t row_of_mean(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op->role != ops::Role::reduce_mean || !is_float(node.type.dtype) || node.type.dtype == DType::f64) return 0;
  const Shape& shape = graph.node(node.operands[0]).type.shape;
  const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
  if (axes.size() != 1 || axes[0] != static_cast<int>(shape.size()) - 1 || shape.back().is_symbol()) return 0;
  return shape.back().size();
}

/// A norm: mean(y) over rows, and the mean of squares of what is left.
struct Norm {
  NodeId of = 0, mean = 0, spread = 0;
  std::int64_t block = 0;
  std::set<NodeId> made;  ///< from the statistics, element by element, and the statistics themselves
  /// Who reads what is made, and what: products that read the same share it.
  std::map<std::pair<NodeId, NodeId>, std::vector<NodeId>> sinks;  ///< (reader, or 0 of products; value) -> readers
};

class StatisticsFinder {
 public:
  explicit StatisticsFinder(const Graph& graph)
      : graph_(graph), users_(graph.users()), is_output_(graph.size(), false) {
    for (const ir::Output& output : graph.outputs()) is_output_[output.value] = true;
  }

  std::optional<Norm> norm_of(NodeId mean) const {
    const std::int64_t row = row_of_mean(graph_, mean);
    Norm norm;
    norm.mean = mean;
    norm.of = graph_.node(mean).operands.empty() ? 0 : graph_.node(mean).operands[0];
    for (const std::int64_t block : kBlocks) {
      if (norm.block == 0 && row > 0 && row % block == 0) norm.block = block;
    }
    if (norm.block == 0 || !comes_from_contraction(norm.of, norm.of, true) || !find_spread(norm) || !find_sinks(norm))
      return std::nullopt;
    return norm;
  }

 private:
  /// Whether a value is computed, element by element, from the result of a contraction that `except` does not stand
  /// before.
  bool comes_from_contraction(NodeId from, NodeId except, bool itself) const {
    std::vector<NodeId> open{from};
    std::set<NodeId> seen;
    while (!open.empty() && seen.size() < kMostSteps) {
      const NodeId id = open.back();
      open.pop_back();
      if ((id == except && !itself) || !seen.insert(id).second) continue;
      const Node& node = graph_.node(id);
      if (node.op->cls == ops::OpClass::contraction) return true;
      if (is_elementwise(node) || moves_elements(node))
        open.insert(open.end(), node.operands.begin(), node.operands.end());
    }
    return false;
  }

  /// mean((y - mean)^2), whatever reshapes stand between.
  bool find_spread(Norm& norm) const {
    for (NodeId view : users_[norm.mean]) {
      if (graph_.node(view).op->role != ops::Role::reshape) continue;
      for (NodeId rest : users_[view]) {
        const Node& difference = graph_.node(rest);
        if (difference.op->role != ops::Role::sub || difference.operands[0] != norm.of ||
            difference.operands[1] != view)
          continue;
        for (NodeId square : users_[rest]) {
          const Node& product = graph_.node(square);
          if (product.op->role != ops::Role::mul || product.operands[0] != rest || product.operands[1] != rest)
            continue;
          for (NodeId spread : users_[square]) {
            if (row_of_mean(graph_, spread) == 0) continue;
            norm.spread = spread;
            return true;
          }
        }
      }
    }
    return false;
  }

  bool find_sinks(Norm& norm) const {
    norm.made = {norm.mean, norm.spread};
    std::vector<NodeId> open{norm.mean, norm.spread};
    while (!open.empty() && norm.made.size() < kMostSteps) {
      const NodeId id = open.back();
      open.pop_back();
      if (is_output_[id]) return false;
      for (NodeId user : users_[id]) {
        const Node& node = graph_.node(user);
        if (user == norm.spread || norm.made.count(user) != 0) continue;
        if (node.op->cls == ops::OpClass::contraction) {
          norm.sinks[{0, id}].push_back(user);
          continue;
        }
        if (!is_elementwise(node) && !moves_elements(node)) return false;
        const bool joins = std::any_of(node.operands.begin(), node.operands.end(), [&](NodeId other) {
          return other != id && norm.made.count(other) == 0 && comes_from_contraction(other, norm.of, false);
        });
        if (joins) {
          norm.sinks[{user, id}].push_back(user);
        } else {
          norm.made.insert(user);
          open.push_back(user);
        }
      }
    }
    return open.empty() && !norm.sinks.empty();
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
};

class Splitter {
 public:
  explicit Splitter(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Result<std::optional<Rewritten>> run() {
    const StatisticsFinder finder(graph_);
    std::vector<Norm> norms;
    std::map<NodeId, std::size_t> by_mean;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      auto norm = finder.norm_of(id);
      if (!norm) continue;
      for (const auto& [key, readers] : norm->sinks) {
        for (NodeId reader : readers) read_[reader].push_back({norms.size(), key});
      }
      by_mean[id] = norms.size();
      norms.push_back(*std::move(norm));
    }
    if (norms.empty()) return std::optional<Rewritten>();
    parts_.resize(norms.size());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto found = by_mean.find(id);
      if (found != by_mean.end()) VKF_CHECK_OK(leave_parts(norms[found->second], parts_[found->second]));
      const auto reads = read_.find(id);
      if (reads == read_.end()) {
        VKF_CHECK_OK(rewriter_.keep(id));
        continue;
      }
      std::vector<NodeId> operands = rewriter_.mapped(id);
      for (const auto& [norm, key] : reads->second) {
        VKF_TRY(made, joined(norms[norm], parts_[norm], key));
        for (std::size_t i = 0; i < operands.size(); ++i) {
          if (graph_.node(id).operands[i] == key.second) operands[i] = made;
        }
      }
      VKF_TRY(made, ir::append_copy(rewriter_.graph(), graph_.node(id), operands));
      rewriter_.alias(id, made);
    }
    VKF_TRY(split, rewriter_.finish_with_places());
    VKF_TRY(live, without_dead(std::move(split)));
    return std::optional(std::move(live));
  }

 private:
  struct Parts {
    NodeId means = 0, spreads = 0;                     ///< [rows.., blocks]
    std::map<std::pair<NodeId, NodeId>, NodeId> made;  ///< of sinks
  };

  Result<void> leave_parts(const Norm& norm, Parts& parts) {
    Shape blocks = graph_.node(norm.of).type.shape;
    const std::int64_t count = blocks.back().size() / norm.block;
    blocks.back() = Dim(count);
    Shape each = blocks;
    each.emplace_back(1);
    blocks.emplace_back(norm.block);
    // Parts are not rounded to 16 bits: what a part is away from the mean may be far more than the mean is.
    VKF_TRY(wide, rewriter_.cast(rewriter_.at(norm.of), DType::f32));
    VKF_TRY(rows, rewriter_.reshape(wide, blocks));
    VKF_TRY(means, rewriter_.reduce_rows("reduce_mean", rows));
    VKF_TRY(around, rewriter_.reshape(means, each));
    VKF_TRY(rest, rewriter_.op("sub", {rows, around}));
    VKF_TRY(squares, rewriter_.op("mul", {rest, rest}));
    VKF_TRY(spreads, rewriter_.reduce_rows("reduce_mean", squares));
    parts.means = means;
    parts.spreads = spreads;
    return {};
  }

  /// What a sink reads, from joined parts of its own.
  Result<NodeId> joined(const Norm& norm, Parts& parts, const std::pair<NodeId, NodeId>& key) {
    const auto known = parts.made.find(key);
    if (known != parts.made.end()) return known->second;
    std::map<NodeId, NodeId> copies;
    VKF_TRY(whole, rewriter_.reduce_rows("reduce_mean", parts.means));
    VKF_TRY(rounded, rewriter_.cast(whole, graph_.node(norm.mean).type.dtype));
    copies[norm.mean] = rounded;
    Shape one_per_row = graph_.node(norm.mean).type.shape;
    one_per_row.emplace_back(1);
    VKF_TRY(around, rewriter_.reshape(whole, one_per_row));
    VKF_TRY(rest, rewriter_.op("sub", {parts.means, around}));
    VKF_TRY(squares, rewriter_.op("mul", {rest, rest}));
    VKF_TRY(both, rewriter_.op("add", {parts.spreads, squares}));
    VKF_TRY(spread, rewriter_.reduce_rows("reduce_mean", both));
    VKF_TRY(rounded_spread, rewriter_.cast(spread, graph_.node(norm.spread).type.dtype));
    copies[norm.spread] = rounded_spread;
    for (const NodeId id : needed(norm, key.second)) {
      std::vector<NodeId> operands;
      for (NodeId operand : graph_.node(id).operands) {
        const auto copy = copies.find(operand);
        operands.push_back(copy != copies.end() ? copy->second : rewriter_.at(operand));
      }
      VKF_TRY(made, ir::append_copy(rewriter_.graph(), graph_.node(id), operands));
      copies[id] = made;
    }
    parts.made[key] = copies.at(key.second);
    return copies.at(key.second);
  }

  /// Of what is made from the statistics, what a value is made from, in order.
  std::set<NodeId> needed(const Norm& norm, NodeId value) const {
    std::set<NodeId> all;
    std::vector<NodeId> open{value};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (id == norm.mean || id == norm.spread || norm.made.count(id) == 0 || !all.insert(id).second) continue;
      open.insert(open.end(), graph_.node(id).operands.begin(), graph_.node(id).operands.end());
    }
    return all;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<NodeId, std::vector<std::pair<std::size_t, std::pair<NodeId, NodeId>>>> read_;
  std::vector<Parts> parts_;
};

}  // namespace

Result<std::optional<Rewritten>> partial_statistics(const Graph& graph) { return Splitter(graph).run(); }

}  // namespace vkfuse::passes
