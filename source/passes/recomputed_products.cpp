// Products that are larger than their factors, as the scores of attention are, once for each product that they lead to:
// a kernel then computes them as it multiplies them, and nobody stores them. The forward pass of attention and each of
// the gradients of its queries, keys and values have their own.
//   Dao, Fu, Ermon, Rudra, Re: FlashAttention (2022), section 3 and appendix B.
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

/// Of the sum that an element of such a product is: longer ones are in no kernel that multiplies them on
/// (templates/attention).
constexpr std::int64_t kLongestSum = 256;

/// Elements where all sizes are known; else nothing.
std::optional<double> elements_of(const Node& node) {
  double count = 1;
  for (const Dim& dim : node.type.shape) {
    if (dim.is_symbol()) return std::nullopt;
    count *= static_cast<double>(dim.size());
  }
  return count;
}

class Recomputer {
 public:
  explicit Recomputer(const Graph& graph)
      : graph_(graph), rewriter_(graph), leads_(graph.size()), readers_(graph.size()), owner_(graph.size(), 0) {}

  Result<std::optional<Rewritten>> run() {
    find();
    if (std::none_of(readers_.begin(), readers_.end(), [](const auto& readers) { return readers.size() > 1; }))
      return std::optional<Rewritten>();
    for (NodeId id = 0; id < graph_.size(); ++id) VKF_CHECK_OK(make(id));
    VKF_TRY(made, rewriter_.finish_with_places());
    // A search that begins with kernels of the other form looks at all of these again.
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (leads_[id]) made.places[id].reset();
    }
    return std::optional(std::move(made));
  }

 private:
  [[nodiscard]] bool is_contraction(NodeId id) const { return graph_.node(id).op->cls == ops::OpClass::contraction; }

  [[nodiscard]] bool is_large_product(NodeId id) const {
    if (!is_contraction(id)) return false;
    const Node& node = graph_.node(id);
    const auto all = elements_of(node);
    const auto first = elements_of(graph_.node(node.operands[0])), second = elements_of(graph_.node(node.operands[1]));
    return all && first && second && *all > *first + *second && is_short_sum(node);
  }

  [[nodiscard]] bool is_short_sum(const Node& product) const {
    const auto* dot = std::get_if<ir::DotPayload>(&product.payload);
    if (dot == nullptr) return false;
    std::int64_t elements = 1;
    for (const int axis : dot->contract_a)
      elements *= graph_.node(product.operands[0]).type.shape[static_cast<std::size_t>(axis)].size();
    return elements <= kLongestSum;
  }

  /// Whether elements of a value are those of its operands, computed or moved.
  [[nodiscard]] bool passes_on(NodeId id) const {
    const Node& node = graph_.node(id);
    const ops::Role role = node.op->role;
    return is_elementwise(node) || role == ops::Role::reshape || role == ops::Role::permute ||
           role == ops::Role::broadcast;
  }

  /// What large products lead to element by element, and which contractions read each such value, near or far.
  void find() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const std::vector<NodeId>& operands = graph_.node(id).operands;
      const bool reads = std::any_of(operands.begin(), operands.end(), [&](NodeId operand) { return leads_[operand]; });
      leads_[id] = is_large_product(id) || (passes_on(id) && reads);
      if (is_contraction(id) && reads && !leads_[id]) note_reader(id);
    }
  }

  void note_reader(NodeId reader) {
    std::vector<NodeId> open = graph_.node(reader).operands;
    std::set<NodeId> seen;
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!leads_[id] || !seen.insert(id).second) continue;
      if (readers_[id].empty()) owner_[id] = reader;
      readers_[id].push_back(reader);
      if (!is_contraction(id))
        open.insert(open.end(), graph_.node(id).operands.begin(), graph_.node(id).operands.end());
    }
  }

  /// The value of a node as one of the contractions has it.
  [[nodiscard]] NodeId at(NodeId id, NodeId reader) const {
    const auto own = copies_.find({id, reader});
    return own != copies_.end() ? own->second : rewriter_.at(id);
  }

  Result<NodeId> copy_for(NodeId id, NodeId reader) {
    std::vector<NodeId> operands;
    for (NodeId operand : graph_.node(id).operands) operands.push_back(at(operand, reader));
    return ir::append_copy(rewriter_.graph(), graph_.node(id), std::move(operands));
  }

  Result<void> make(NodeId id) {
    if (is_contraction(id) && !leads_[id]) {
      VKF_TRY(made, copy_for(id, id));
      rewriter_.alias(id, made);
      return {};
    }
    if (readers_[id].empty()) return rewriter_.keep(id);
    VKF_TRY(own, copy_for(id, owner_[id]));
    rewriter_.alias(id, own);
    for (NodeId reader : readers_[id]) {
      if (reader == owner_[id]) continue;
      VKF_TRY(made, copy_for(id, reader));
      copies_[{id, reader}] = made;
    }
    return {};
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<bool> leads_;                   ///< large products, and what is computed from them element by element
  std::vector<std::vector<NodeId>> readers_;  ///< of such a value: contractions with other results
  std::vector<NodeId> owner_;                 ///< the first of them, which has what others read, too
  std::map<std::pair<NodeId, NodeId>, NodeId> copies_;  ///< of a value, for each of the others
};

}  // namespace

Result<std::optional<Rewritten>> recompute_products(const ir::Graph& graph) { return Recomputer(graph).run(); }

}  // namespace vkfuse::passes
