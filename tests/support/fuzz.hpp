// Suites of random graphs: each case is drawn, compiled in its own way, run on guarded buffers and compared with the
// reference.
//
// VKFUSE_SEED=N runs one case and nothing else; VKFUSE_FUZZ_CASES=N runs N of them, VKFUSE_FUZZ_FIRST=N from that seed
// on.
#pragma once

#include <functional>

#include "support/compare.hpp"

namespace vkfuse::test {

/// A number in the environment; none where the variable is unset or empty.
std::optional<std::uint64_t> number_in(const char* variable);

/// The seeds that the environment asks for, else `cases` of them from `first` on.
std::vector<std::uint64_t> seeds_from(std::uint64_t first, std::uint64_t cases);

/// The line that runs one case again: the driver and whatever else the environment has decided, the seed, the program.
std::string replay_line(std::uint64_t seed, std::string_view filter);

struct RandomGraph {
  ir::Graph graph;
  /// A few floats are no numbers. An infinity times what rounding may have made 0 is undecided, and one score decides
  /// a whole row, so how many are undecided is asked of the suite and not of such a case.
  bool special = false;
  /// Numbers of so few bits that a whole case may be undecided: how many are is asked of the suite here, too.
  bool coarse = false;
};

/// Floats in [-2, 2), integers of every size that multiply without an end.
Data small_data(const ir::Graph& graph, std::uint64_t seed, bool special);

struct RandomSuite {
  const char* test = "";    ///< of vkfuse-test-differential, for the line that replays a case
  std::uint64_t cases = 0;  ///< unless the environment says how many
  schedule::Template wanted = schedule::Template::matmul;  ///< a suite without such kernels shows nothing
  bool units = false;                                      ///< nor does one without cooperative matrices
  bool integer_dot = false;                                ///< nor one without dot products of bytes
  std::function<RandomGraph(std::uint64_t seed)> draw;
  std::function<Build(std::uint64_t seed)> build;
};
void run_random(const RandomSuite& suite);

/// Fusion, numerics and subgroups of a case, from its seed. With `low_limits`: on that device.
Build random_build(std::uint64_t seed, bool low_limits);

}  // namespace vkfuse::test
