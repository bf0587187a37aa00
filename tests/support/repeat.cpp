// Graphs of layers: one random block several times over, with other weights, and the sizes that such a graph runs at.
#include <algorithm>
#include <cmath>
#include <set>

#include "support/cases.hpp"
#include "support/device.hpp"
#include "support/random.hpp"

namespace vkfuse::test {

namespace {

using ir::NodeId;

constexpr std::size_t kRuns = 7;           // sets of sizes of one graph
constexpr double kMostElements = 60'000;   // of all values of a graph together: what the reference has time for
constexpr double kMostProducts = 400'000;  // of all its contractions

/// Appends copies of a block to a graph, each with inputs and tables of its own.
class Layers {
 public:
  Layers(const ir::Graph& block, std::uint64_t seed) : block_(block), random_(seed) { made_.name = block.name; }

  ir::Graph run() {
    const std::size_t count = 2 + random_.below(5);
    const bool is_chain = random_.chance(70);
    for (std::size_t i = 0; i < count; ++i) add_layer(i, is_chain, i + 1 == count);
    return std::move(made_);
  }

 private:
  void add_layer(std::size_t layer, bool is_chain, bool is_last) {
    std::vector<NodeId> map(block_.size());
    std::optional<NodeId> before = std::exchange(carried_, std::nullopt);
    for (NodeId id = 0; id < block_.size(); ++id) {
      ir::Node node = block_.node(id);
      const auto* input = std::get_if<ir::InputPayload>(&node.payload);
      if (input != nullptr && before && made_.node(*before).type == node.type) {
        map[id] = *std::exchange(before, std::nullopt);
        continue;
      }
      if (input != nullptr) {
        map[id] = must(made_.add_input(fmt::format("{} layer {}", input->name, layer), node.type));
        continue;
      }
      if (const auto* table = std::get_if<ir::ConstantPayload>(&node.payload); table != nullptr && layer % 2 == 1)
        node.payload = turned(*table, node.type.dtype);
      std::vector<NodeId> operands;
      for (NodeId operand : node.operands) operands.push_back(map[operand]);
      map[id] = must(ir::append_copy(made_, node, std::move(operands)));
    }
    for (const ir::Output& output : block_.outputs()) {
      const NodeId value = map[output.value];
      const bool is_read = is_chain && !is_last && !carried_ && goes_into_a_block(made_.node(value).type);
      if (is_read) carried_ = tamed(value);
      if (!is_read || random_.chance(25)) must(made_.add_output(fmt::format("{} layer {}", output.name, layer), value));
    }
  }

  /// Small again where the dtype has a function that does that: magnitudes grow from layer to layer.
  NodeId tamed(NodeId value) {
    const ops::OpRow& row = ops::row("sin");
    return (row.types & ops::bit(made_.node(value).type.dtype)) != 0 ? must(made_.add(row, {value})) : value;
  }

  [[nodiscard]] bool goes_into_a_block(const TensorType& type) const {
    return std::any_of(block_.nodes().begin(), block_.nodes().end(), [&](const ir::Node& node) {
      return std::holds_alternative<ir::InputPayload>(node.payload) && node.type == type;
    });
  }

  /// The same elements from the last to the first.
  static ir::ConstantPayload turned(const ir::ConstantPayload& table, DType dtype) {
    const auto width = static_cast<std::ptrdiff_t>(size_of(dtype));
    auto bytes = std::make_shared<std::vector<std::byte>>();
    for (auto at = table.bytes->end(); at - table.bytes->begin() >= width; at -= width)
      bytes->insert(bytes->end(), at - width, at);
    return ir::ConstantPayload{std::move(bytes)};
  }

  const ir::Graph& block_;
  Random random_;
  ir::Graph made_;
  std::optional<NodeId> carried_;  ///< what the layer before hands on
};

/// Positions of all axes that have any.
double positions(const Sizes& sizes) {
  double count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<double>(std::max<std::int64_t>(size, 1));
  return count;
}

/// Whether the reference has time for the graph at these sizes, and 64 bits count the axes of what has no elements.
bool is_small(const ir::Graph& graph, const SymbolValues& symbols) {
  double elements = 0, products = 0;
  for (const ir::Node& node : graph.nodes()) {
    const auto sizes = resolve(node.type.shape, symbols);
    if (!sizes) return false;
    const auto count = element_count(*sizes);
    if (!count || positions(*sizes) > 0x1p63) return false;
    elements += static_cast<double>(*count);
    double each = static_cast<double>(*count);
    if (const auto* dot = std::get_if<ir::DotPayload>(&node.payload)) {
      const Shape& a = graph.node(node.operands[0]).type.shape;
      for (const int axis : dot->contract_a)
        each *= static_cast<double>(must(resolve({a[static_cast<std::size_t>(axis)]}, symbols))[0]);
      products += each;
    }
  }
  return elements <= kMostElements && products <= kMostProducts;
}

}  // namespace

Case repeated(Case block) {
  block.graph = Layers(block.graph, seed_of(block.seed, "layers")).run();
  return block;
}

std::vector<SymbolValues> sizes_to_run(const Case& one) {
  if (one.symbols.empty()) return {one.symbols};
  std::map<std::string, DimFacts> facts;
  for (const ir::Node& node : one.graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (dim.is_symbol()) facts.emplace(dim.name(), dim.facts());
    }
  }
  Random random(seed_of(one.seed, "sizes"));
  const std::vector<std::int64_t> all = {0,  1,  2,   3,   4,   5,   7,   8,   12,   13,   16,   31,   32,
                                         61, 64, 127, 128, 257, 509, 512, 513, 1021, 1024, 4096, 4099, 8192};
  const auto suits = [](std::int64_t size, const DimFacts& one_fact) {
    return size >= one_fact.min && size <= one_fact.max && size % one_fact.multiple_of == 0;
  };
  std::vector<SymbolValues> made;
  constexpr int kTries = 200;
  for (int i = 0; i < kTries && made.size() < kRuns; ++i) {
    SymbolValues symbols = one.symbols;
    for (auto& [name, size] : symbols) {
      const DimFacts& own = facts[name];
      // The least sizes first, all symbols alike; then any, and the least and the largest that the facts allow.
      std::int64_t wanted = i < 4 ? all[static_cast<std::size_t>(i)] : random.pick(all);
      if (i >= 4 && random.chance(20)) wanted = random.chance(50) ? own.max : own.min;
      if (suits(wanted, own)) size = wanted;
    }
    if (is_small(one.graph, symbols) && std::find(made.begin(), made.end(), symbols) == made.end())
      made.push_back(std::move(symbols));
  }
  if (made.empty()) made.push_back(one.symbols);
  return made;
}

}  // namespace vkfuse::test
