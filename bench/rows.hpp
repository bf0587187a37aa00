// The table of benchmark rows: what is measured, at which size, as a graph written with the public API.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  bool sweep = false;         ///< part of --sweep
};

struct Row {
  std::string_view name;
  std::string_view group;
  DType dtype;
  /// The shape on a data-centre GPU. Smaller devices get less of traits.divide; the other dimensions stay.
  std::vector<std::int64_t> full;
  /// Outputs of the program at a shape.
  std::vector<Tensor> (*build)(DType dtype, const Shape& shape);
  Traits traits;
};

/// All rows, in the order of the report.
std::span<const Row> rows();

/// "[16384,8192]", "64x[7812500]".
std::string size_text(const Row& row, std::span<const std::int64_t> sizes);

}  // namespace vkfuse::bench
