#include <algorithm>
#include <set>

#include "support/cases.hpp"
#include "support/device.hpp"

namespace vkfuse::test {

namespace {

using ir::NodeId;

constexpr int kMostAttempts = 300;  // each compiles and runs a graph

/// Copies a graph with changes; what does not fit together any more gives no graph.
class Copier {
 public:
  explicit Copier(const ir::Graph& from) : from_(from), map_(from.size(), kNone) { to_.name = from.name; }

  std::set<std::size_t> dropped_outputs;
  std::map<NodeId, NodeId> replaced;           ///< by one of its operands
  std::set<NodeId> made_inputs;                ///< a computed node that becomes an input
  std::map<std::int64_t, std::int64_t> sizes;  ///< a size of a dimension, everywhere, to another

  std::optional<ir::Graph> run() {
    const std::vector<bool> live = needed();
    for (NodeId id = 0; id < from_.size(); ++id) {
      if (!live[id]) continue;
      if (const auto other = replaced.find(id); other != replaced.end()) {
        map_[id] = map_[other->second];
        continue;
      }
      const std::optional<NodeId> made = copy(id);
      if (!made) return std::nullopt;
      map_[id] = *made;
    }
    for (std::size_t i = 0; i < from_.outputs().size(); ++i) {
      const ir::Output& output = from_.outputs()[i];
      if (dropped_outputs.count(i) == 0 && !to_.add_output(output.name, map_[output.value])) return std::nullopt;
    }
    if (to_.outputs().empty()) return std::nullopt;
    return std::move(to_);
  }

 private:
  static constexpr NodeId kNone = ~NodeId{0};

  [[nodiscard]] std::vector<bool> needed() const {
    std::vector<bool> live(from_.size(), false);
    for (std::size_t i = 0; i < from_.outputs().size(); ++i) {
      if (dropped_outputs.count(i) == 0) live[from_.outputs()[i].value] = true;
    }
    for (auto id = static_cast<NodeId>(from_.size()); id-- > 0;) {
      if (!live[id] || made_inputs.count(id) != 0) continue;
      const auto other = replaced.find(id);
      if (other != replaced.end()) {
        live[other->second] = true;
        continue;
      }
      for (NodeId operand : from_.node(id).operands) live[operand] = true;
    }
    return live;
  }

  Shape resized(const Shape& shape) const {
    Shape made = shape;
    for (Dim& dim : made) {
      const auto size = dim.is_symbol() ? sizes.end() : sizes.find(dim.size());
      if (size != sizes.end()) dim = Dim(size->second);
    }
    return made;
  }

  std::optional<NodeId> copy(NodeId id) {
    ir::Node node = from_.node(id);
    node.type.shape = resized(node.type.shape);
    if (made_inputs.count(id) != 0) {
      auto made = to_.add_input(fmt::format("was{}", id), node.type);
      return made.ok() ? std::optional(*made) : std::nullopt;
    }
    if (const auto* constant = std::get_if<ir::ConstantPayload>(&node.payload)) {
      const auto bytes =
          static_cast<std::size_t>(must(byte_count(node.type.dtype, must(resolve(node.type.shape, {})))));
      if (bytes > constant->bytes->size()) return std::nullopt;
      node.payload = ir::ConstantPayload{std::make_shared<std::vector<std::byte>>(
          constant->bytes->begin(), constant->bytes->begin() + static_cast<std::ptrdiff_t>(bytes))};
    }
    std::vector<NodeId> operands;
    for (NodeId operand : node.operands) operands.push_back(map_[operand]);
    auto made = ir::append_copy(to_, node, std::move(operands));
    return made.ok() ? std::optional(*made) : std::nullopt;
  }

  const ir::Graph& from_;
  ir::Graph to_;
  std::vector<NodeId> map_;
};

class Shrinker {
 public:
  Shrinker(Case failing, const std::function<bool(const Case&)>& fails) : best_(std::move(failing)), fails_(fails) {}

  Case run() {
    bool smaller = true;
    while (smaller && attempts_ < kMostAttempts) {
      smaller = drop_outputs();
      smaller = cut_nodes() || smaller;
      smaller = shrink_sizes() || smaller;
    }
    return std::move(best_);
  }

 private:
  bool attempt(Copier& copier, const SymbolValues& symbols) {
    if (++attempts_ > kMostAttempts) return false;
    std::optional<ir::Graph> graph = copier.run();
    if (!graph) return false;
    Case made{*std::move(graph), symbols, best_.seed, best_.special};
    if (!fails_(made)) return false;
    best_ = std::move(made);
    return true;
  }

  bool drop_outputs() {
    bool any = false;
    for (std::size_t i = best_.graph.outputs().size(); i-- > 0 && best_.graph.outputs().size() > 1;) {
      Copier copier(best_.graph);
      copier.dropped_outputs = {i};
      any = attempt(copier, best_.symbols) || any;
    }
    return any;
  }

  bool cut_nodes() {
    bool any = false;
    for (auto id = static_cast<NodeId>(best_.graph.size()); id-- > 0;) {
      if (id >= best_.graph.size()) continue;
      const ir::Node node = best_.graph.node(id);
      bool cut = false;
      for (std::size_t i = 0; i < node.operands.size() && !cut; ++i) {
        if (best_.graph.node(node.operands[i]).type.dtype != node.type.dtype) continue;
        Copier copier(best_.graph);
        copier.replaced[id] = node.operands[i];
        cut = attempt(copier, best_.symbols);
      }
      if (!cut && !node.operands.empty()) {
        Copier copier(best_.graph);
        copier.made_inputs = {id};
        cut = attempt(copier, best_.symbols);
      }
      any = any || cut;
    }
    return any;
  }

  bool shrink_sizes() {
    bool any = false;
    std::set<std::int64_t> sizes;
    for (const ir::Node& node : best_.graph.nodes()) {
      for (const Dim& dim : node.type.shape) {
        if (!dim.is_symbol() && dim.size() > 1) sizes.insert(dim.size());
      }
    }
    for (std::int64_t size : sizes) {
      for (std::int64_t smaller : {std::int64_t{1}, size / 2, size - 1}) {
        Copier copier(best_.graph);
        copier.sizes[size] = smaller;
        if (!attempt(copier, best_.symbols)) continue;
        any = true;
        break;
      }
    }
    const SymbolValues symbols = best_.symbols;
    for (const auto& symbol : symbols) {
      for (std::int64_t smaller : {std::int64_t{1}, symbol.second / 2, symbol.second - 1}) {
        if (smaller < 0 || smaller >= symbol.second) continue;
        SymbolValues fewer = best_.symbols;
        fewer[symbol.first] = smaller;
        Copier copier(best_.graph);
        if (!attempt(copier, fewer)) continue;
        any = true;
        break;
      }
    }
    return any;
  }

  Case best_;
  const std::function<bool(const Case&)>& fails_;
  int attempts_ = 0;
};

}  // namespace

Case shrink(Case failing, const std::function<bool(const Case&)>& fails) {
  return Shrinker(std::move(failing), fails).run();
}

}  // namespace vkfuse::test
