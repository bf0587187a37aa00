// Random graphs that are valid by construction, their data, and the way to the smallest
// graph that still fails.
#pragma once

#include <functional>

#include "base/target.hpp"
#include "support/run.hpp"

namespace vkfuse::test {

struct Case {
  ir::Graph graph;
  SymbolValues symbols;
  std::uint64_t seed = 0;
  bool special = false;  ///< float inputs also hold infinities, NaN, subnormals, zeros of both signs
};

struct CaseOptions {
  Caps caps;  ///< what the device offers decides which ops are drawn
  int min_ops = 3;
  int max_ops = 10;
  /// Only f16 and f32 values of at least 4,096 elements, and only ops whose errors are small: for
  /// comparing accuracies.
  bool large_half = false;
  /// Ops of every class, each value of a shape of its own; else elementwise ops over one space of positions.
  bool every_class = false;
  int symbol_chance = 15;  ///< of a dimension to be a symbol, in percent
  bool symbols = true;     ///< plans are made for sizes of symbols that are larger than any run's
};

Case random_case(std::uint64_t seed, const CaseOptions& options);

/// Two to six copies of the case's graph, each with inputs and tables of its own: in a chain where the types allow it,
/// else side by side.
Case repeated(Case block);

/// Sizes for one program to run at: 0, 1, 2, 3, then odd ones, primes and large ones, as far as the graph's facts and
/// the reference's time allow. Of a graph without symbols, one set of none.
std::vector<SymbolValues> sizes_to_run(const Case& one);

/// Inputs for a case; each depends on the seed, its name and its type alone, so that they survive
/// the shrinking of everything else. An input named "index24" holds positions below 24.
Data data_for(const Case& one);

/// Looks for a smaller case that fails too: fewer outputs, nodes and elements. `fails` runs a case
/// and says whether it still shows the fault.
Case shrink(Case failing, const std::function<bool(const Case&)>& fails);

}  // namespace vkfuse::test
