// Sums of products: each line of an operand that some result needs is read once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/numerics.hpp"
#include "reference/evaluator.hpp"
#include "reference/fold.hpp"

namespace vkfuse::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kHeldElements = std::int64_t{1} << 20;  // of lines, at a time

/// Some axes of a tensor as mixed-radix digits, outermost first.
struct Digits {
  Sizes sizes;
  Sizes strides;

  Digits(const Sizes& of, std::span<const int> axes) {
    for (int axis : axes) {
      std::int64_t stride = 1;
      for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < of.size(); ++i) stride *= of[i];
      sizes.push_back(of[static_cast<std::size_t>(axis)]);
      strides.push_back(stride);
    }
  }
  [[nodiscard]] std::int64_t count() const {
    std::int64_t all = 1;
    for (std::int64_t size : sizes) all *= size;
    return all;
  }
  /// The offset in the tensor of the position with this number.
  [[nodiscard]] std::int64_t offset(std::int64_t number) const {
    std::int64_t at = 0;
    for (std::size_t i = sizes.size(); i-- > 0; number /= sizes[i]) at += number % sizes[i] * strides[i];
    return at;
  }
};

/// One product, in a register of the dtype's lane.
Element product(DType dtype, const Element& a, const Element& b) {
  if (!is_float(dtype)) {
    const auto bits = static_cast<std::uint64_t>(a.integer) * static_cast<std::uint64_t>(b.integer);
    return {0, ops::wrap(dtype, static_cast<std::int64_t>(bits)), 0};
  }
  const double value = a.real * b.real;
  if (a.bound == kInfinity || b.bound == kInfinity) return {value, 0, kInfinity};
  if (!std::isfinite(value)) {
    // An infinity times what may be zero, or of either sign.
    const bool sure = (a.bound == 0 || std::abs(a.real) > a.bound) && (b.bound == 0 || std::abs(b.real) > b.bound);
    return {value, 0, sure || std::isnan(a.real) || std::isnan(b.real) ? 0 : kInfinity};
  }
  const DType in = dtype == DType::f64 ? DType::f64 : DType::f32;
  double bound = std::abs(a.real) * b.bound + std::abs(b.real) * a.bound + a.bound * b.bound;
  if (value != 0 || bound != 0) bound += unit(in) * std::abs(value) + (in == DType::f64 ? 0x1p-1022 : 0x1p-126);
  return {value, 0, bound};
}

}  // namespace

Result<Elements> Evaluator::contracted(ir::NodeId id, const Indices& indices) {
  const ir::Node& node = graph_.node(id);
  const auto& dot = std::get<ir::DotPayload>(node.payload);
  const ir::NodeId a = node.operands[0];
  const ir::NodeId b = node.operands[1];
  const DType dtype = node.type.dtype;
  const Digits batch_a(sizes(a), dot.batch_a);
  const Digits batch_b(sizes(b), dot.batch_b);
  const Digits free_a(sizes(a), ir::free_axes(dot.batch_a, dot.contract_a, sizes(a).size()));
  const Digits free_b(sizes(b), ir::free_axes(dot.batch_b, dot.contract_b, sizes(b).size()));
  const Digits along_a(sizes(a), dot.contract_a);
  const Digits along_b(sizes(b), dot.contract_b);
  const std::int64_t length = along_a.count();
  const Folder empty(node.op->fold, dtype, longest_dot_chain(length));
  Elements results(indices.size(), empty.result());
  if (length == 0) return results;

  Indices offsets_a;
  Indices offsets_b;
  for (std::int64_t k = 0; k < length; ++k) {
    offsets_a.push_back(along_a.offset(k));
    offsets_b.push_back(along_b.offset(k));
  }
  /// Lines by where they begin.
  using Lines = std::map<std::int64_t, Elements>;
  const auto fetch = [&](ir::NodeId operand, const Indices& offsets, Lines& lines) -> Result<void> {
    Indices all;
    for (const auto& line : lines) {
      for (std::int64_t offset : offsets) all.push_back(line.first + offset);
    }
    VKF_TRY(elements, values(operand, all));
    auto from = elements.begin();
    for (auto& line : lines) {
      line.second.assign(from, from + length);
      from += length;
    }
    return {};
  };
  std::size_t done = 0;
  while (done < indices.size()) {
    Lines lines_a;
    Lines lines_b;
    std::vector<std::pair<std::int64_t, std::int64_t>> begins;
    for (std::size_t i = done; i < indices.size(); ++i) {
      const std::int64_t n = indices[i] % free_b.count();
      const std::int64_t m = indices[i] / free_b.count() % free_a.count();
      const std::int64_t batch = indices[i] / free_b.count() / free_a.count();
      begins.emplace_back(batch_a.offset(batch) + free_a.offset(m), batch_b.offset(batch) + free_b.offset(n));
      lines_a[begins.back().first];
      lines_b[begins.back().second];
      if (static_cast<std::int64_t>(lines_a.size() + lines_b.size()) * length > kHeldElements) break;
    }
    VKF_CHECK_OK(fetch(a, offsets_a, lines_a));
    VKF_CHECK_OK(fetch(b, offsets_b, lines_b));
    for (const auto& [begin_a, begin_b] : begins) {
      const Elements& left = lines_a.at(begin_a);
      const Elements& right = lines_b.at(begin_b);
      Folder folder(empty);
      for (std::size_t k = 0; k < left.size(); ++k) folder.add(product(dtype, left[k], right[k]));
      results[done++] = folder.result();
    }
  }
  return results;
}

}  // namespace vkfuse::reference
