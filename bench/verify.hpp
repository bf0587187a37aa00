// Whether a bound program computes what its graph says: samples of every output against the reference.
#pragma once

#include "bound.hpp"

namespace vkfuse::bench {

/// What samples of every output must be. Made once per row and compared with every program of it.
struct Expected {
  struct Samples {
    std::string output;
    DType dtype = DType::f32;
    std::size_t elements = 0;          ///< of the whole output
    std::vector<std::int64_t> starts;  ///< of windows of `length` consecutive elements
    std::int64_t length = 0;
    reference::Column column;
    std::optional<std::vector<std::byte>> unfused;  ///< the whole output of one kernel per op, where that has a say
  };
  std::vector<Samples> outputs;
  std::string wrong;  ///< a sentence where one kernel per op has a say and is off by more than a file's tolerance
};

/// The reference may hold so much at a time with CheckOptions::whole, in bytes: of 4,097 tokens, two tables of scores
/// for eight heads.
constexpr std::int64_t kReferenceBytes = std::int64_t{6} << 30;

struct CheckOptions {
  double work = 0;     ///< elements that the reference may evaluate per output, about
  bool exact = false;  ///< the data leaves nothing to round: the reference's bounds are not needed
  /// Values are computed whole, once for all samples, however much work that is (core_seconds_of_reference).
  bool whole = false;
};

/// What the samples of a graph take the reference with CheckOptions::whole, by its model of one core.
Result<double> core_seconds_of_reference(const ir::Graph& graph);

/// Windows of up to 64 elements, the first and the last ones of each output among them: as many, and as long,
/// as the work allows. One element is always checked, whatever it costs (a sum over the whole tensor has no other).
Result<Expected> expect(const ir::Graph& graph, const HostData& data, const CheckOptions& options);

/// Runs the program, which has one kernel per op, and keeps its outputs: they have a say from then on. As what is held
/// to their error would be right however wrong they are, they are held to the tolerance of files first.
Result<void> keep_unfused(const Bound& unfused, const BufferSets& sets, Expected& expected);

struct Verdict {
  std::string wrong;     ///< one sentence; empty if every sample is within its bound
  double max_ratio = 0;  ///< largest error / bound
  std::int64_t samples = 0;
  double run_ms = 0;  ///< of the run, from submission to its end by the host's clock
};

/// Runs the program once on the first set. Outputs are filled with NaN bits before, so that an
/// element nobody wrote is found.
Result<Verdict> verify(const Bound& bound, const Expected& expected, const BufferSets& sets);

}  // namespace vkfuse::bench
