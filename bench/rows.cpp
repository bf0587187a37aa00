#include "rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/error.hpp"
#include "row_groups.hpp"

namespace vkfuse::bench {

namespace {

/// "bias_gelu_tanh:f16": the name without its dtype at the end, and the dtype.
std::string slug(const Row& row) {
  const std::string dtype(vkfuse::name_of(row.dtype));
  std::string name = row.name;
  if (name.ends_with(' ' + dtype)) name.resize(name.size() - dtype.size() - 1);
  for (char& letter : name) {
    if (letter == ' ' || letter == '+' || letter == '-') letter = '_';
  }
  return name + ':' + dtype;
}

/// "16384x4096". Nothing if it is none.
std::optional<std::vector<std::int64_t>> parse_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  while (true) {
    std::int64_t size = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), size);
    if (parsed.ec != std::errc() || size < 1) return std::nullopt;
    sizes.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    if (text.empty()) return sizes;
    if (text.front() != 'x') return std::nullopt;
    text.remove_prefix(1);
  }
}

}  // namespace

std::span<const Row> rows() {
  static const std::vector<Row> table = [] {
    std::vector<Row> all;
    for (auto* group :
         {chain_rows, view_rows, norm_rows, reduce_rows, scan_rows, gather_rows, matmul_rows, conv_rows, odd_rows,
          epilogue_rows, mask_rows, transformer_rows, network_rows, training_rows, planner_rows, law_rows}) {
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

std::vector<std::int64_t> sizes_beside(const Row& row, std::vector<std::int64_t> sizes) {
  constexpr std::int64_t kTile = 128;
  for (const std::size_t axis : row.beside->axes)
    sizes[axis] = std::max<std::int64_t>(1, (sizes[axis] + kTile / 2) / kTile) * kTile;
  return sizes;
}

std::string case_text(const Row& row, std::span<const std::int64_t> sizes) {
  return fmt::format("{}:{}", slug(row), fmt::join(sizes, "x"));
}

Result<Request> parse_case(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view name = text.substr(0, colon);
  const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& one) { return slug(one) == name; });
  if (colon == std::string_view::npos || row == rows().end()) {
    return make_error(
        ErrorCode::not_found,
        "No row is called '{}' (a case is NAME:DTYPE:SIZES, as softmax:f32:16384x4096; --list shows all).", text);
  }
  const auto sizes = parse_sizes(text.substr(colon + 1));
  if (!sizes || sizes->size() != row->full.size()) {
    return invalid("The case '{}' has no sizes for the {} dimensions of its row, as in '{}'.", text, row->full.size(),
                   case_text(*row, row->full));
  }
  return Request{&*row, *sizes};
}

}  // namespace vkfuse::bench
