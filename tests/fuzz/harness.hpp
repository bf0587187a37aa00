// Everything that must hold of a random graph, and the smallest graph of which it does not.
#pragma once

#include <functional>

#include "support/cases.hpp"
#include "support/compare.hpp"
#include "support/fuzz.hpp"

namespace vkfuse::test {

/// How a case is compiled and run.
struct Way {
  Build how;            ///< of the fused program; the unfused one has the same numerics
  std::string text;     ///< of the device and the schedule that are forced; empty if nothing is
  bool unfused = true;  ///< whether it is run unfused, too
  bool many_sizes =
      false;  ///< whether one program is run at all of sizes_to_run(), and others of the process beside it
  /// Another spelling of the graph, which is compiled in its place and gives the same results; null: as it is.
  std::function<ir::Graph(const ir::Graph&)> rewrite = nullptr;
  bool fewer_bytes = true;  ///< whether the fused plan must not move more bytes than the unfused one
};

struct CaseSuite {
  const char* test = "";  ///< for the line that replays a case
  std::uint64_t first = 0;
  std::uint64_t cases = 0;  ///< unless the environment says how many
  std::function<std::pair<Case, Way>(std::uint64_t seed)> draw;
};

/// Counts over all cases of a suite.
struct Tally {
  std::int64_t runs = 0;     ///< sets of sizes, of all cases
  std::int64_t refused = 0;  ///< those of them that are refused, as elements would be picked out of nothing
  std::int64_t elements = 0;
  std::int64_t undecided = 0;
  std::int64_t kernels_fused = 0;
  std::int64_t kernels_unfused = 0;
  double max_ratio = 0;
  std::vector<double> graph_ratios;     ///< the largest error/bound of each graph that has an error
  reference::Histogram ratios;          ///< error/bound of every element that has an error
  std::map<std::string_view, int> ops;  ///< nodes of each op
  std::vector<double> seconds;          ///< that each graph took
};

Tally run_cases(const CaseSuite& suite);

}  // namespace vkfuse::test
