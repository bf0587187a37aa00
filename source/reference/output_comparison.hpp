// How far an output may be from what it should be: one rule for vkfuse validate and for the tests of whole models.
//
// Through a deep model the reference's bounds grow until they say little or nothing. Elements are therefore held to the
// smallest of
//   - the reference's bound;
//   - four times what the same graph is off by with one kernel per op, but not less than four times the last bit of the
//     output's largest element: in bounds, where they say something, and in numbers, where they exceed that element.
//     The error of a few elements is chance: it counts for an element if 16 have a quarter of its magnitude at least;
//   - the tolerance of a file, where there is no bound at all.
//
// An element's file alone decides where it says that the element is not finite, and where it disagrees with the
// reference and the reference's bound is wider than the file's tolerance: there rounding errors cancel, or overflow, in
// one way in f32 and in another in double.
//
// Where the graph rounds computed numbers, as dynamic quantisation does, one last bit may move every output. Elements
// without a bound may then be off from their file by four times what one kernel per op is off by, from the file or from
// the reference, whichever is less, as long as the same is true of the root mean squares and the output as a whole is
// off by no more than a quarter. Where one kernel per op has not run, as for outputs of another program, it is four
// times the distance between the reference and the file.
//
// Whole numbers are right or wrong, unless a rounding decides: of those, no more may differ from the reference than one
// in a hundred of all elements, and four times as many as do with one kernel per op.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/reference.hpp"

namespace vkfuse::reference {

/// The difference of two floats: 0 where both are NaN, or one is an infinity that the other may round to within
/// `allowed`; infinite where one is no number.
double float_error(DType dtype, double got, double want, double allowed);

/// How far an output is from one thing that it is compared with.
struct Deviation {
  std::int64_t compared =
      0;  ///< elements for which it is known how far they may be off; of none, no number below says anything
  std::int64_t wrong = 0;
  double max_error = 0;     ///< absolute, right and wrong elements alike; infinite where one of both is no number
  double max_ratio = 0;     ///< of an error over what is allowed; infinite where nothing is
  Histogram ratios;         ///< of the right elements that have an error
  std::int64_t worst = -1;  ///< row of the largest ratio; -1 without an error
  std::string first_wrong;  ///< one sentence; empty if nothing is wrong

  /// An element that is off by `error` of `allowed`. Returns whether it is right.
  bool add(std::int64_t row, double error, double allowed);
};

/// What an output is worth. A row is an element that was looked at.
struct OutputComparison {
  std::int64_t elements = 0;
  std::int64_t undecided = 0;      ///< elements without any bound: of whole numbers, a rounding decides
  std::int64_t unbounded = 0;      ///< of floats, those whose bound says nothing
  std::int64_t loose = 0;          ///< of floats, those whose bound is wider than four last bits of the largest element
  std::int64_t by_file_alone = 0;  ///< elements that the file decides
  std::int64_t referenced = 0;     ///< elements of which the reference says something, by_file_alone left out
  double rounding_slack = 0;    ///< by which elements without a bound may be off from a file because the graph rounds
  bool beside_unfused = false;  ///< whether one kernel per op had a say
  Deviation by_reference;
  std::optional<Deviation> by_file;
  std::vector<bool> wrong;  ///< by row

  [[nodiscard]] bool right() const { return by_reference.wrong == 0 && (!by_file || by_file->wrong == 0); }
  [[nodiscard]] std::int64_t wrong_elements() const;
};

/// What an output is compared with.
struct Expected {
  const Column& column;
  std::span<const std::int64_t> elements;             ///< which element of the output each row is; empty: 0, 1, 2, ...
  std::optional<std::span<const std::byte>> unfused;  ///< the whole output with one kernel per op, where that is known
  bool has_file = false;                              ///< elements without a bound are left to compare_with_file
  std::span<const std::byte> file = {};               ///< the whole output by its file, as many bytes; empty: not known
  bool rounds = false;  ///< the graph rounds numbers that it has computed, see rounds_computed_numbers
};

/// Whether a value depends on a rounding of floats that are computed: to whole numbers, or to integers.
bool rounds_computed_numbers(const ir::Graph& graph, ir::NodeId value);

/// Whether one kernel per op would have a say. `got` is the whole output, here and below.
bool asks_for_unfused(DType dtype, std::span<const std::byte> got, const Expected& expected);

OutputComparison compare_with_bounds(DType dtype, std::span<const std::byte> got, const Expected& expected);

/// What the reference says of an output. Without a column nothing is known of how far a right output may be off.
struct ReferencedElements {
  const Column* column = nullptr;
  std::span<const std::int64_t> elements;  ///< that the column is of, ascending; empty: all

  ReferencedElements(const Column* of, std::span<const std::int64_t> rows = {})  // NOLINT(google-explicit-constructor)
      : column(of), elements(rows) {}
};

/// Adds what a file says of all elements to a comparison. Both the output and the reference must agree with it, unless
/// the file decides alone. Rows of the comparison are elements from then on.
void compare_with_file(DType dtype, std::span<const std::byte> got, std::span<const std::byte> file,
                       const ReferencedElements& referenced, OutputComparison& comparison);

/// Where wrong elements of an output lie: its last axis across, all others down, in tiles.
struct TileMap {
  static constexpr std::int64_t kMost = 32;  ///< tiles across and down
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> compared;  ///< elements of each tile, row by row
  std::vector<std::int64_t> wrong;     ///< how many of them are wrong
};
TileMap map_of_wrong(std::span<const std::int64_t> sizes, std::span<const std::int64_t> elements,
                     const std::vector<bool>& wrong);

/// A line per row of tiles: '.' is right, '1' to '9' are tenths that are wrong, rounded up, '#' is wrong as a whole, '
/// ' was not looked at.
std::string to_text(const TileMap& map);

/// An element's place along each axis.
std::vector<std::int64_t> position_of(std::int64_t element, std::span<const std::int64_t> sizes);

}  // namespace vkfuse::reference
