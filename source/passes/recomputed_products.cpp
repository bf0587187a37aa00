// Products that are larger than their factors, as the scores of attention are, once for each product that they lead to:
// a kernel then computes them as it multiplies them, and nobody stores them. The forward pass of attention and each of
// the gradients of its queries, keys and values have their own.
//   Dao, Fu, Ermon, Rudra, Re: FlashAttention (2022), section 3 and appendix B.
#include <algorithm>
#include <map>
#include <set>

#include "ir/large_products.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;

bool is_contraction(const Node& node) { return node.op->cls == ops::OpClass::contraction; }

class Recomputer {
 public:
  explicit Recomputer(const Graph& graph)
      : graph_(graph),
        rewriter_(graph),
        leads_(ir::large_products(graph)),
        readers_(graph.size()),
        owner_(graph.size(), 0) {}

  Result<std::optional<Rewritten>> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (is_reader(id)) note_reader(id);
    }
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
  /// A contraction with another result, of what large products lead to.
  [[nodiscard]] bool is_reader(NodeId id) const {
    return !leads_[id] && is_contraction(graph_.node(id)) && ir::reads_any(graph_.node(id), leads_);
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
      if (!is_contraction(graph_.node(id)))
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
    if (is_contraction(graph_.node(id)) && !leads_[id]) {
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
