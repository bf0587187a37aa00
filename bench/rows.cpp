#include "rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "row_groups.hpp"

namespace vkfuse::bench {

std::span<const Row> rows() {
  static const std::vector<Row> table = [] {
    std::vector<Row> all;
    for (auto* group : {chain_rows, view_rows, norm_rows, reduce_rows, scan_rows, gather_rows}) {
      std::vector<Row> some = group();
      std::move(some.begin(), some.end(), std::back_inserter(all));
    }
    return all;
  }();
  return table;
}

std::string size_text(const Row& row, std::span<const std::int64_t> sizes) {
  const std::string shape = fmt::format("[{}]", fmt::join(sizes, ","));
  return row.traits.tensors > 1 ? fmt::format("{}x{}", row.traits.tensors, shape) : shape;
}

}  // namespace vkfuse::bench
