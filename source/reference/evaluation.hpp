// What an evaluation does: which values are computed as a whole, once, and which at the elements that are asked for.
#pragma once

#include "reference/dense.hpp"
#include "reference/reference.hpp"

namespace vkfuse::reference {

/// How the nodes that some requests need are evaluated.
struct Plan {
  /// Of each node.
  enum class Way : std::uint8_t {
    none,       ///< not needed
    requested,  ///< computed at the elements that are asked for
    dense,      ///< every element is computed once, in the order of the nodes, and held until its last reader is done
    again,      ///< every element is needed, but it is computed where it is read
  };
  std::vector<Sizes> sizes;
  std::vector<std::int64_t> counts;
  std::vector<Way> ways;
  double nanoseconds = 0;       ///< modelled, of one core
  std::int64_t peak_bytes = 0;  ///< of values held at a time
};

/// An error names a symbol without a value, or a value that has no reference.
Result<Plan> plan_evaluation(const ir::Graph& graph, std::span<const Request> requests,
                             const InputBindings& input_bindings, std::int64_t memory_bytes);

}  // namespace vkfuse::reference
