// Masks of attention as exporters of models write them.
#pragma once

#include <cstdint>
#include <span>

#include "vkfuse/tensor.hpp"

namespace vkfuse::test {

struct MaskSpelling {
  const char* name;
  /// The scores [batch, heads, queries, keys] with the mask, of which most have this number where they hide a key;
  /// sizes are numbers.
  Tensor (*masked)(const Tensor& scores, double number);
  /// Whether a query may see a key.
  bool (*sees)(std::int64_t query, std::int64_t key);
  /// Blocks that no query sees are not visited; else the mask is one that is to be taken as data, or as a bias.
  bool leaves_out = true;
  /// What is masked is -infinity, or becomes so by a sum of 16-bit floats: rows without anything are NaN.
  bool infinite = false;
  /// It may hide every key of a row, and so of a tile of rows: what is masked is all that counts there.
  bool hides_rows = false;
};

std::span<const MaskSpelling> mask_spellings();

/// The least finite number of a dtype.
double least_number(DType dtype);

}  // namespace vkfuse::test
