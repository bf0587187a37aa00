#include "api/known_positions.hpp"

#include <algorithm>

#include "ir/graph.hpp"

namespace vkfuse::api {
namespace {

/// More views than this in one concatenation cost more than loading an index per element.
constexpr std::size_t kMaxRuns = 4;

/// Positions start, start + step, ...; a step of 0 repeats one element.
struct Run {
  std::int64_t start = 0, step = 0, count = 0;
};

/// The fewest runs that a left-to-right reading finds; more than kMaxRuns are not worth finishing.
std::vector<Run> runs_of(const std::vector<std::int64_t>& requested) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < requested.size() && runs.size() <= kMaxRuns;) {
    Run run{requested[i], i + 1 < requested.size() ? requested[i + 1] - requested[i] : 1, 1};
    for (++i; i < requested.size() && requested[i] - requested[i - 1] == run.step; ++i) ++run.count;
    if (run.count == 1) run.step = 1;
    runs.push_back(run);
  }
  return runs;
}

/// How often each position is repeated, if all are equally often: 0,0,1,1,2,2.
std::int64_t times_each(const std::vector<std::int64_t>& requested) {
  std::size_t times = 1;
  while (times < requested.size() && requested[times] == requested[0]) ++times;
  if (requested.size() % times != 0) return 1;
  for (std::size_t i = 0; i < requested.size(); ++i) {
    if (requested[i] != requested[i / times * times]) return 1;
  }
  return static_cast<std::int64_t>(times);
}

Shape with_size(Shape shape, int axis, Dim size) {
  shape[static_cast<std::size_t>(axis)] = std::move(size);
  return shape;
}

Tensor run_of(const Tensor& x, int axis, const Run& run) {
  if (run.step == 0) {
    return x.slice(axis, run.start, run.start + 1).broadcast_to(with_size(x.shape(), axis, run.count));
  }
  const std::int64_t last = run.start + (run.count - 1) * run.step;
  // Before element 0 there is no element -1: NumPy counts that from the end.
  const std::int64_t end = run.step > 0 ? last + 1 : last == 0 ? INT64_MIN : last - 1;
  return x.slice(axis, run.start, end, run.step);
}

Tensor repeated(const Tensor& x, int axis, std::int64_t times, std::int64_t size) {
  if (!x.valid()) return x;
  const auto at = static_cast<std::size_t>(axis);
  Shape stretched = x.shape();
  stretched[at] = size;
  const Shape merged = with_size(x.shape(), axis, size * times);
  stretched.insert(stretched.begin() + axis + 1, Dim(times));
  return x.unsqueeze(axis + 1).broadcast_to(stretched).reshape(merged);
}

}  // namespace

DType position_dtype(std::int64_t size) { return size <= INT32_MAX ? DType::i32 : DType::i64; }

Tensor position_constant(const std::vector<std::int64_t>& values, Shape shape, DType dtype) {
  std::vector<std::byte> bytes;
  for (const std::int64_t value : values) ir::encode_int(dtype, value, bytes);
  return Tensor::constant(dtype, std::move(shape), bytes);
}

Tensor real_constant(const std::vector<double>& values, Shape shape, DType dtype) {
  std::vector<std::byte> bytes;
  for (const double value : values) ir::encode(dtype, value, bytes);
  return Tensor::constant(dtype, std::move(shape), bytes);
}

Tensor take(const Tensor& x, int axis, const std::vector<std::int64_t>& requested) {
  if (!x.valid()) return x;
  if (requested.empty()) return x.slice(axis, 0, 0);
  const std::int64_t times = times_each(requested);
  if (times > 1 && static_cast<std::size_t>(times) < requested.size()) {
    std::vector<std::int64_t> once;
    for (std::size_t i = 0; i < requested.size(); i += static_cast<std::size_t>(times)) once.push_back(requested[i]);
    return repeated(take(x, axis, once), axis, times, static_cast<std::int64_t>(once.size()));
  }
  const std::vector<Run> runs = runs_of(requested);
  if (runs.size() > kMaxRuns) {
    const std::int64_t highest = *std::ranges::max_element(requested);
    return x.gather(
        position_constant(requested, {static_cast<std::int64_t>(requested.size())}, position_dtype(highest)), axis);
  }
  std::vector<Tensor> parts;
  for (const Run& run : runs) parts.push_back(run_of(x, axis, run));
  return parts.size() == 1 ? parts[0] : concat(parts, axis);
}

}  // namespace vkfuse::api
