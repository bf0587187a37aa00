// The table of benchmark rows: what is measured, at which size, as a graph written with the public API.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vkfuse/result.hpp"
#include "vkfuse/tensor.hpp"

namespace vkfuse::bench {

/// What is unusual about a row.
struct Traits {
  int tensors = 1;            ///< independent tensors of the row's shape
  bool launch_bound = false;  ///< neither divided nor rotated: what counts is the cost of launching
  std::string_view positive;  ///< inputs whose name starts so are not negative
  /// Inputs are whole numbers up to this, three of four of them 0, and so few that every sum of them is exact in
  /// whatever order: outputs are then compared without a tolerance, of which long sums need much.
  std::int64_t whole = 0;
  std::vector<std::size_t> divide = {0};  ///< dimensions that smaller devices get less of, in this order
  bool sweep = false;                     ///< part of --sweep
  bool quick = false;                     ///< part of the quick suite when no row is asked for by name
  bool named = false;                     ///< part of no suite: measured where its name, group or case is asked for
  std::string_view small;        ///< inputs whose name starts so have a deviation of 1/32: weights of long sums
  std::string_view codes = {};   ///< bytes whose name starts so are codes of floats of 8 bits, none of them NaN
  std::string_view powers = {};  ///< bytes whose name starts so are exponents of scales, of 2^-9 to 2^-6
  /// The reference's bounds say little or nothing of the outputs, so that these are held to what one kernel per op is
  /// off by, too: by the rule of reference/output_comparison.hpp, as those of whole models.
  bool wide_bounds = false;
  /// A part of a network: its outputs have wide bounds and need most of what is computed before them, so the reference
  /// computes values whole, and one replay of the fused program is timed as well (Timing::replay).
  bool model = false;
  int law_ops = 0;  ///< of group law: ops in the chain
};

/// A row's program, as `build` writes it.
struct Built {
  std::vector<Tensor> outputs;
  /// Values that a framework with a kernel for each of its own ops (softmax, a norm, GELU) stores before the last
  /// of them. None: its ops are the graph's.
  std::optional<std::vector<Tensor>> stored;

  Built(std::initializer_list<Tensor> results) : outputs(results) {}   // NOLINT(google-explicit-constructor)
  Built(std::vector<Tensor> results) : outputs(std::move(results)) {}  // NOLINT(google-explicit-constructor)
};

/// Outputs of one op of a framework, or of several that store `between`.
inline Built framework_ops(std::vector<Tensor> outputs, std::vector<Tensor> between = {}) {
  Built built(std::move(outputs));
  built.stored = std::move(between);
  return built;
}

/// What a row is timed beside, to say how fast it is per useful operation: another graph, or the same one at sizes that
/// tiles divide.
struct Beside {
  std::string_view name;  ///< "128s", "plain": with the row's name, what reports call it
  std::function<Built(DType dtype, const Shape& shape)> build;
  std::vector<std::size_t> axes = {};  ///< that have the nearest multiple of 128; the others are the row's
};

struct Row {
  std::string name;
  std::string_view group;
  DType dtype;
  /// The shape on a data-centre GPU. Smaller devices get less of traits.divide; the other dimensions stay.
  std::vector<std::int64_t> full;
  /// The program at a shape.
  std::function<Built(DType dtype, const Shape& shape)> build;
  Traits traits;
  std::optional<Beside> beside = {};
};

/// All rows, in the order of the report.
std::span<const Row> rows();

/// "[16384,8192]", "64x[7812500]".
std::string size_text(const Row& row, std::span<const std::int64_t> sizes);

/// What is asked for: a row, at the size that suits the device or at a given one.
struct Request {
  const Row* row = nullptr;
  std::vector<std::int64_t> sizes;  ///< empty: what suits
};

/// The sizes of what a row is timed beside, where the row has `sizes`. Precondition: it is timed beside something.
std::vector<std::int64_t> sizes_beside(const Row& row, std::vector<std::int64_t> sizes);

/// "softmax:f32:16384x4096": the row, its dtype and its size, in one word that no shell changes.
std::string case_text(const Row& row, std::span<const std::int64_t> sizes);
/// Reads such a word. Not found: no row of that name and dtype. Invalid: sizes that the row does not have.
Result<Request> parse_case(std::string_view text);

}  // namespace vkfuse::bench
