// Elements picked by their values: NonZero, Compress, Unique.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "onnx/host_operators.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"

namespace vkfuse::onnx {
namespace {

bool is_non_zero(const TensorData& x, std::size_t i) {
  return is_float(x.dtype) ? element_real(x, i) != 0 : element_int(x, i) != 0;
}

std::int64_t product(const Sizes& sizes, std::size_t first, std::size_t last) {
  std::int64_t count = 1;
  for (std::size_t i = first; i < last; ++i) count *= sizes[i];
  return count;
}

/// A tensor as slices along one axis: [outer, count, inner]. Without an axis, as a list of elements.
struct Slices {
  std::int64_t outer = 1, count = 1, inner = 1;
  std::size_t axis = 0;
  bool flat = false;
};

Result<Slices> slices_of(const NodeContext& node, const Sizes& sizes) {
  Slices slices;
  if (!node.attributes().has("axis")) {
    slices.flat = true;
    slices.count = product(sizes, 0, sizes.size());
    return slices;
  }
  VKF_TRY(axis, axis_attribute(node, 0));
  slices.axis = static_cast<std::size_t>(axis);
  slices.outer = product(sizes, 0, slices.axis);
  slices.count = sizes[slices.axis];
  slices.inner = product(sizes, slices.axis + 1, sizes.size());
  return slices;
}

Sizes with_count(const Sizes& sizes, const Slices& slices, std::int64_t count) {
  if (slices.flat) return {count};
  Sizes result = sizes;
  result[slices.axis] = count;
  return result;
}

TensorData picked(const TensorData& x, const Slices& slices, const std::vector<std::int64_t>& requested) {
  TensorData result{{}, x.dtype, with_count(x.sizes, slices, static_cast<std::int64_t>(requested.size())), {}};
  const auto run = static_cast<std::size_t>(slices.inner * size_of(x.dtype));
  result.bytes.resize(static_cast<std::size_t>(slices.outer) * requested.size() * run);
  std::byte* to = result.bytes.data();
  if (run == 0) return result;
  for (std::int64_t outer = 0; outer < slices.outer; ++outer) {
    for (const std::int64_t at : requested) {
      std::memcpy(to, x.bytes.data() + static_cast<std::size_t>(outer * slices.count + at) * run, run);
      to += run;
    }
  }
  return result;
}

/// A number that orders elements as their values do: zeros are equal, and NaNs, which come last.
std::uint64_t order_of(const TensorData& x, std::size_t i) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  if (!is_float(x.dtype)) {
    const auto bits = static_cast<std::uint64_t>(element_int(x, i));
    return x.dtype == DType::u64 ? bits : bits ^ kSign;
  }
  const double value = element_real(x, i);
  if (std::isnan(value)) return UINT64_MAX;
  const auto bits = std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// What slices are compared by, element by element.
class SliceKeys {
 public:
  SliceKeys(const TensorData& x, const Slices& slices) {
    const auto count = static_cast<std::size_t>(slices.count), inner = static_cast<std::size_t>(slices.inner);
    length_ = static_cast<std::size_t>(slices.outer) * inner;
    keys_.resize(count * length_);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const std::size_t outer = i / inner / count, at = i / inner % count;
      keys_[at * length_ + outer * inner + i % inner] = order_of(x, i);
    }
  }

  /// Whether one slice comes before another.
  [[nodiscard]] bool is_before(std::size_t a, std::size_t b) const {
    return std::ranges::lexicographical_compare(key(a), key(b));
  }

 private:
  [[nodiscard]] std::span<const std::uint64_t> key(std::size_t slice) const {
    return std::span(keys_).subspan(slice * length_, length_);
  }

  std::vector<std::uint64_t> keys_;
  std::size_t length_ = 0;  ///< of one slice
};

/// Slices that differ, each for all that are equal to it.
struct DistinctSlices {
  std::vector<std::int64_t> first;    ///< the first of the slices that are equal
  std::vector<std::int64_t> inverse;  ///< for every slice, which of the distinct ones it equals
  std::vector<std::int64_t> counts;   ///< how many are equal
};

/// In ascending order.
DistinctSlices distinct_slices(const SliceKeys& keys, std::size_t count) {
  const auto is_before = [&](std::size_t a, std::size_t b) { return keys.is_before(a, b); };
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), is_before);
  DistinctSlices distinct;
  distinct.inverse.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0 || is_before(order[i - 1], order[i])) {
      distinct.first.push_back(static_cast<std::int64_t>(order[i]));
      distinct.counts.push_back(0);
    }
    distinct.inverse[order[i]] = static_cast<std::int64_t>(distinct.first.size()) - 1;
    ++distinct.counts.back();
  }
  return distinct;
}

/// Puts them in the order in which they come first.
void order_by_appearance(DistinctSlices& distinct) {
  std::vector<std::int64_t> groups(distinct.first.size()), position(distinct.first.size());
  std::iota(groups.begin(), groups.end(), 0);
  const auto at = [](auto& list, std::int64_t i) -> auto& { return list[static_cast<std::size_t>(i)]; };
  std::ranges::sort(groups, {}, [&](std::int64_t group) { return at(distinct.first, group); });
  for (std::size_t i = 0; i < groups.size(); ++i) at(position, groups[i]) = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> first, counts;
  for (const std::int64_t group : groups) {
    first.push_back(at(distinct.first, group));
    counts.push_back(at(distinct.counts, group));
  }
  for (std::int64_t& group : distinct.inverse) group = at(position, group);
  distinct.first = std::move(first);
  distinct.counts = std::move(counts);
}

Result<const TensorData*> condition_of(const NodeContext& node, const Slices& slices) {
  const TensorData& condition = node.data(1);
  if (condition.dtype != DType::boolean || condition.sizes.size() != 1) {
    return invalid("The condition (operand 1) is {} of rank {}; it must be a list of bool.", name_of(condition.dtype),
                   condition.sizes.size());
  }
  if (condition.sizes[0] > slices.count)
    return invalid("The condition has {} elements; the axis has {}.", condition.sizes[0], slices.count);
  return &condition;
}

}  // namespace

Result<HostResults> non_zero(const NodeContext& node) {
  const TensorData& x = node.data(0);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < element_count(x); ++i) {
    if (is_non_zero(x, i)) found.push_back(i);
  }
  // One row of positions per axis; a scalar has none.
  std::vector<std::int64_t> positions;
  positions.reserve(x.sizes.size() * found.size());
  for (std::size_t axis = 0; axis < x.sizes.size(); ++axis) {
    const std::int64_t inner = product(x.sizes, axis + 1, x.sizes.size());
    for (const std::size_t i : found) positions.push_back(static_cast<std::int64_t>(i) / inner % x.sizes[axis]);
  }
  return HostResults{
      int64_data({static_cast<std::int64_t>(x.sizes.size()), static_cast<std::int64_t>(found.size())}, positions)};
}

Result<HostTypes> most_of_non_zero(const NodeContext& node) {
  VKF_TRY(sizes, static_sizes(node.tensor(0).shape()));
  VKF_TRY(count, vkfuse::element_count(sizes));
  return HostTypes{{DType::i64, {static_cast<std::int64_t>(sizes.size()), count}}};
}

Result<HostResults> compress(const NodeContext& node) {
  const TensorData& x = node.data(0);
  VKF_TRY(slices, slices_of(node, x.sizes));
  VKF_TRY(condition, condition_of(node, slices));
  std::vector<std::int64_t> requested;
  for (std::size_t i = 0; i < element_count(*condition); ++i) {
    if (is_non_zero(*condition, i)) requested.push_back(static_cast<std::int64_t>(i));
  }
  return HostResults{picked(x, slices, requested)};
}

Result<HostTypes> most_of_compress(const NodeContext& node) {
  VKF_TRY(sizes, static_sizes(node.tensor(0).shape()));
  VKF_TRY(slices, slices_of(node, sizes));
  VKF_TRY(condition, static_sizes(node.tensor(1).shape()));
  VKF_TRY(asked, vkfuse::element_count(condition));
  return HostTypes{{node.dtype(), with_count(sizes, slices, std::min(slices.count, asked))}};
}

Result<HostResults> unique(const NodeContext& node) {
  const TensorData& x = node.data(0);
  VKF_TRY(sorted, node.attributes().integer("sorted", 1));
  VKF_TRY(slices, slices_of(node, x.sizes));
  const auto count = static_cast<std::size_t>(slices.count);
  DistinctSlices distinct = distinct_slices(SliceKeys(x, slices), count);
  if (sorted == 0) order_by_appearance(distinct);
  const auto found = static_cast<std::int64_t>(distinct.first.size());
  return HostResults{picked(x, slices, distinct.first), int64_data({found}, distinct.first),
                     int64_data({slices.count}, distinct.inverse), int64_data({found}, distinct.counts)};
}

Result<HostTypes> most_of_unique(const NodeContext& node) {
  VKF_TRY(sizes, static_sizes(node.tensor(0).shape()));
  VKF_TRY(slices, slices_of(node, sizes));
  const std::pair<DType, Sizes> list{DType::i64, {slices.count}};
  return HostTypes{{node.dtype(), with_count(sizes, slices, slices.count)}, list, list, list};
}

const OperatorRow& reading_row() {
  static const OperatorRow row = [] {
    OperatorRow made;
    made.name = "read";
    made.host = [](const NodeContext& node) -> Result<HostResults> {
      HostResults values;
      for (int i = 0; i < node.inputs(); ++i) values.push_back(*node.value(i).known);
      return values;
    };
    made.most = [](const NodeContext& node) -> Result<HostTypes> {
      HostTypes types;
      for (int i = 0; i < node.inputs(); ++i) {
        VKF_TRY(sizes, static_sizes(node.tensor(i).shape()));
        types.emplace_back(node.tensor(i).dtype(), std::move(sizes));
      }
      return types;
    };
    return made;
  }();
  return row;
}

}  // namespace vkfuse::onnx
