// Reads elements of values that are held, stored in bytes, or a view of either.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <span>

#include "reference/dense.hpp"
#include "reference/reference.hpp"
#include "reference/views.hpp"

namespace vkfuse::reference {

/// How many elements of each node were computed.
using Counters = std::vector<std::atomic<std::int64_t>>;

/// A graph and what is known of its nodes: `sizes`, `held` and `counters` are by node.
struct GraphValues {
  const ir::Graph& graph;
  const InputBindings& input_bindings;
  const std::vector<Sizes>& sizes;
  const Materialised& held;
  Counters& counters;
};

/// Reads from several threads at a time. Values that are not held are computed from those that are, which must be
/// views, elementwise ops or generators.
class Reader {
 public:
  /// What `known` refers to must outlive it.
  explicit Reader(const GraphValues& known)
      : graph_(known.graph),
        input_bindings_(known.input_bindings),
        sizes_(known.sizes),
        held_(known.held),
        counters_(known.counters) {}

  /// The elements at these flat indices, in any order.
  void read(ir::NodeId id, std::span<const std::int64_t> indices, Block& into) const;
  /// The elements of a node from `begin` to `end`, computed from its operands: of a view, an elementwise op or a
  /// generator.
  void compute(ir::NodeId id, std::int64_t begin, std::int64_t end, Block& into) const;

  /// So many elements of a node were computed.
  void count(ir::NodeId id, std::int64_t elements) const { counters_[id] += elements; }

  [[nodiscard]] const ir::Graph& graph() const { return graph_; }
  [[nodiscard]] const Sizes& sizes(ir::NodeId id) const { return sizes_[id]; }
  [[nodiscard]] const Dense* held(ir::NodeId id) const { return held_[id].get(); }
  /// The bytes of an input or a constant, or an error if they are too few.
  [[nodiscard]] Result<std::span<const std::byte>> bytes_of(ir::NodeId id) const;

 private:
  void read_held(const Dense& from, std::span<const std::int64_t> indices, Block& into) const;
  void read_bytes(ir::NodeId id, std::span<const std::int64_t> indices, Block& into) const;
  void read_sources(const ir::Node& node, std::span<const Source> sources, Block& into) const;
  void read_view(ir::NodeId id, std::span<const std::int64_t> indices, Block& into) const;
  void read_elementwise(ir::NodeId id, std::span<const std::int64_t> indices, Block& into) const;
  void apply_each(ir::NodeId id, std::span<const Block> operands, std::span<const bool> is_scalar, std::size_t count,
                  Block& into) const;
  [[nodiscard]] std::vector<Sizes> operand_sizes(const ir::Node& node) const;

  const ir::Graph& graph_;
  const InputBindings& input_bindings_;
  const std::vector<Sizes>& sizes_;
  const Materialised& held_;
  Counters& counters_;
};

}  // namespace vkfuse::reference
