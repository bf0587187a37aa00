// What a rank uploads of the inputs that it is given.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/sharding.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::parallel {

struct LocalInputs {
  std::map<std::string, std::vector<std::byte>, std::less<>> values;  ///< this rank's parts, by name
  SymbolValues symbols;
};

/// Checks inputs, which are whole, against a graph that is not divided, and takes this rank's part of each.
Result<LocalInputs> local_inputs(const ir::Graph& graph, const Sharded& sharded, const std::vector<int>& mesh, int rank,
                                 const Inputs& inputs);

}  // namespace vkfuse::parallel
