// The interpreter: every op in double (integers exactly), carrying for each element a bound on how
// far a correct device may be from the value.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::reference {

/// Elements of one value. Float dtypes use `value`; the others `integer`. `bound` is absolute;
/// infinity means undecided: a rounding error decides which side of a step the result is on.
struct Column {
  std::vector<double> value;
  std::vector<std::int64_t> integer;
  std::vector<double> bound;
};

/// Bytes of each input by name, dense, and the value of each symbolic dimension.
struct InputBindings {
  std::map<std::string, std::span<const std::byte>, std::less<>> inputs;
  SymbolValues symbols;
};

/// Elements of a value that are asked for: those at flat row-major indices in any order, or all.
struct Request {
  ir::NodeId value = 0;
  std::optional<std::vector<std::int64_t>> indices;
};

/// Bounds on an evaluation.
struct EvaluateOptions {
  /// Of values that are held at a time. What takes more is computed where it is read, or at the elements that are asked
  /// for.
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  /// When to stop with an error that has_timed_out knows.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  /// If given: how many elements of each node were computed.
  std::vector<std::int64_t>* computed = nullptr;
};

/// Elements of several values. What most elements of a request need is computed once, whole, on all cores; where few
/// are asked for, only what they need is. Values and bounds are the same in both ways.
Result<std::vector<Column>> evaluate_each(const ir::Graph& graph, std::span<const Request> requests,
                                          const InputBindings& input_bindings, const EvaluateOptions& options = {});

/// How long evaluate_each would take on this machine, by a model of it.
Result<double> modelled_seconds(const ir::Graph& graph, std::span<const Request> requests,
                                const InputBindings& input_bindings);

/// Whether an error of evaluate_each says that its deadline has passed.
bool has_timed_out(const Error& error);

/// The elements of a value at these flat row-major indices.
Result<Column> evaluate_at(const ir::Graph& graph, ir::NodeId value, std::span<const std::int64_t> indices,
                           const InputBindings& input_bindings);

/// Every element of a value.
Result<Column> evaluate(const ir::Graph& graph, ir::NodeId value, const InputBindings& input_bindings);

/// How errors are spread below their bounds, in half octaves: whether bounds mean something.
class Histogram {
 public:
  /// A ratio of error over bound, above 0 and up to 1.
  void add(double ratio);
  void add(const Histogram& other);
  /// The ratio that a part `q` of those that were added does not exceed, rounded up to a half octave; 0 of none.
  [[nodiscard]] double quantile(double q) const;
  [[nodiscard]] std::int64_t count() const;

 private:
  std::array<std::int64_t, 128> counts_ = {};  // [i]: of ratios in (2^(-(i+1)/2), 2^(-i/2)]; the last one has all below
};

/// What a comparison found.
struct Comparison {
  std::int64_t elements = 0;
  std::int64_t undecided = 0;
  std::int64_t wrong = 0;
  double max_ratio = 0;     ///< of error / bound over decided elements; 0 where both are 0
  double max_error = 0;     ///< absolute
  Histogram ratios;         ///< of error / bound, where there is an error
  std::int64_t worst = -1;  ///< position in the column of the largest ratio, or of a wrong element
  std::string first_wrong;  ///< one sentence, empty if nothing is wrong
  [[nodiscard]] bool ok() const { return wrong == 0 && undecided * 100 <= elements; }
};

/// Compares device bytes with a column. `offsets[i]` is the element of `got` that belongs to row i of
/// the column; empty means 0, 1, 2, ...
Comparison compare(DType dtype, std::span<const std::byte> got, const Column& want,
                   std::span<const std::int64_t> offsets = {});

/// Folds a float result with its bound into the dtype's range: what is surely too large is infinity,
/// what may be is undecided. `register_dtype` limits are those of f32 for 16-bit floats too.
void settle(DType dtype, double& value, double& bound);

}  // namespace vkfuse::reference
