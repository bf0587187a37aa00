// Values of nodes at the elements that are asked for, with what is worth keeping kept.
#pragma once

#include <unordered_map>

#include "reference/dense.hpp"
#include "reference/parallel.hpp"
#include "reference/reader.hpp"
#include "reference/reference.hpp"
#include "reference/views.hpp"

namespace vkfuse::reference {

using Indices = std::vector<std::int64_t>;
using Elements = std::vector<Element>;

inline constexpr std::size_t kBlock = 4096;  ///< elements evaluated together: bounds the memory of a large cone

/// An update that a scatter adds to an element.
struct ScatterJoin {
  std::size_t result = 0;    ///< the number of the element among those that are requested
  std::int64_t update = 0;   ///< its flat index
  bool is_last = false;      ///< of this element
  std::int64_t updates = 0;  ///< of this element
};

/// Evaluates by demand. Nodes that compute an element from elements known by its index alone (elementwise
/// ops, views, generators) are walked together, block by block; the others, whose elements need many of
/// their operand's or need data to know which, are *points*: their operands are asked for in turn.
///
/// Small points are kept once known, and small elementwise nodes that a view or point reads: those are read
/// many times, and a row's reduction is computed once and not for each of the row's elements.
class Evaluator {
 public:
  /// What `known` refers to must outlive it. Nodes that are held are not computed.
  Evaluator(const GraphValues& known, const Deadline& deadline)
      : graph_(known.graph),
        input_bindings_(known.input_bindings),
        sizes_(known.sizes),
        held_(known.held),
        counters_(known.counters),
        deadline_(deadline) {}

  /// Keeps what is worth it of all that these nodes need.
  void keep_below(std::span<const ir::NodeId> roots);

  /// Elements of a node at flat indices in any order.
  Result<Elements> values(ir::NodeId id, const Indices& indices);
  /// The same of a node that is neither held nor kept.
  Result<Elements> computed(ir::NodeId id, const Indices& indices);

  /// Where values are nested deeper than the stack should be, computes what is kept from the bottom up.
  Result<void> prepare();

 private:
  struct Kept {
    Elements values;
    std::vector<bool> known;
  };
  /// What one walk knows of a node.
  struct ElementRequest {
    Indices indices;              ///< ascending, each once, when the walk arrives at the node
    std::vector<Source> sources;  ///< of a view's elements
    Elements values;
    [[nodiscard]] const Element& at(std::int64_t index) const;
  };
  using Walk = std::map<ir::NodeId, ElementRequest>;
  /// Updates of a scatter by the row they go to, in order.
  struct Rows {
    std::unordered_map<std::int64_t, Indices> updates;
    bool decided = true;
  };

  [[nodiscard]] std::vector<bool> read_often(const std::vector<bool>& reached) const;
  void choose_kept(const std::vector<bool>& reached);

  [[nodiscard]] const Sizes& sizes(ir::NodeId id) const { return sizes_[id]; }
  [[nodiscard]] bool is_point(ir::NodeId id) const;

  // evaluate.cpp: what is walked together.
  Result<Elements> walked(ir::NodeId root, const Indices& indices);
  void request_operands(ir::NodeId id, ElementRequest& request_element, Walk& walk) const;
  Result<Elements> walked_values(ir::NodeId id, const Walk& walk);
  [[nodiscard]] Elements applied(ir::NodeId id, const Walk& walk) const;

  // points.cpp.
  Result<Elements> reduced(ir::NodeId id, const Indices& indices);
  Result<Elements> contracted(ir::NodeId id, const Indices& indices);
  Result<Elements> scanned(ir::NodeId id, const Indices& indices);
  Result<Elements> sorted(ir::NodeId id, const Indices& indices);
  Result<Elements> gathered(ir::NodeId id, const Indices& indices);
  Result<Elements> scattered(ir::NodeId id, const Indices& indices);
  Result<Elements> updated(ir::NodeId id, const Indices& indices);
  Result<Elements> placed(ir::NodeId id, const Indices& indices);
  Result<const Rows*> rows_of(ir::NodeId scatter);
  /// Adds updates to elements, each of which they name by its number among `results`.
  Result<void> join_updates(ir::NodeId scatter, const std::vector<ScatterJoin>& joins, Elements& results);
  /// Reads `count` elements of a node in blocks; element s is at index_of(s), and goes to take(s, element).
  template <typename IndexOf, typename Take>
  Result<void> stream(ir::NodeId id, std::int64_t count, IndexOf index_of, Take take);
  /// Elements of a node that is computed line by line along `axis`: each line of its operand that holds one
  /// of these indices is read once, whole, and line_of gives the node's elements from it.
  template <typename LineOf>
  Result<Elements> by_lines(ir::NodeId id, int axis, const Indices& indices, LineOf line_of);
  /// Adds the rest of every line that is begun, where the node is computed line by line.
  void complete_lines(ir::NodeId id, Indices& indices) const;

  const ir::Graph& graph_;
  const InputBindings& input_bindings_;
  const std::vector<Sizes>& sizes_;
  const Materialised& held_;
  Counters& counters_;
  const Deadline deadline_;
  std::vector<std::int64_t> nesting_;  ///< of points and kept nodes below each
  std::map<ir::NodeId, Kept> kept_;
  std::map<ir::NodeId, Rows> rows_;
  int depth_ = 0;
};

}  // namespace vkfuse::reference
