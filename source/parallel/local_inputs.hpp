// What a rank uploads of the inputs that it is given.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "parallel/sharding.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::parallel {

using WholeSizes = std::map<std::string, Sizes, std::less<>>;

struct LocalInputs {
  std::map<std::string, std::vector<std::byte>, std::less<>> values;  ///< this rank's parts of what was given, by name
  WholeSizes sizes;                                                   ///< of what was given, whole
  SymbolValues symbols;                                               ///< of all inputs that are known
};

/// A program as it was given, and a rank's part of it.
struct DividedProgram {
  const ir::Graph& graph;  ///< not divided
  const Sharded& sharded;
  const std::vector<int>& mesh;
  int rank = 0;
  const std::set<std::string, std::less<>>* reads = nullptr;  ///< the inputs that the rank reads; null: all
};

/// Checks inputs, which are whole, against a program that is not divided, and takes this rank's part of each. `placed`
/// are inputs that are known from before, which may be left out, as may those that the rank does not read; any other
/// must be given, if `needs_all`.
Result<LocalInputs> local_inputs(const DividedProgram& program, const Inputs& inputs, const WholeSizes& placed = {},
                                 bool needs_all = true);

}  // namespace vkfuse::parallel
