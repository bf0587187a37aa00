// Tensors: cheap handles to the nodes of a graph that is being written down.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vkfuse/dtype.hpp"
#include "vkfuse/result.hpp"
#include "vkfuse/shape.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// A value of the program being built. Copying is cheap and shares the node. Nothing is computed
/// until the program is compiled and run. A bad operation (dtypes that do not go together, shapes
/// that do not broadcast) makes an invalid tensor that remembers the first error; operations on an
/// invalid tensor give invalid tensors, and compile() returns that error.
///
///     Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 4096});
///     Tensor y = relu(x * 2.0f) + 1.0f;
class Tensor {
 public:
  /// A named input. Names are unique within a program.
  static Tensor input(std::string name, DType dtype, Shape shape);
  /// A dense literal: `bytes` holds exactly the elements of the shape, little-endian, row-major.
  static Tensor constant(DType dtype, Shape shape, std::span<const std::byte> bytes);
  /// A scalar literal, rounded to the dtype.
  static Tensor scalar(DType dtype, double value);
  /// The same for integers that a double cannot hold.
  static Tensor scalar_int(DType dtype, std::int64_t value);
  /// Element (i0, i1, ...) is i_axis.
  static Tensor iota(DType dtype, Shape shape, int axis);
  /// One random u32 word per element: Philox 4x32-10 with this seed, counted by flat index.
  static Tensor random(Shape shape, std::uint64_t seed);
  /// An invalid tensor that carries an error.
  static Tensor failed(Error error);

  /// Any elementwise op by its name in docs/ops.md: `Tensor::apply("atan2", {y, x})`.
  static Tensor apply(std::string_view op, std::initializer_list<Tensor> operands);
  static Tensor apply(std::string_view op, std::span<const Tensor> operands);

  [[nodiscard]] bool valid() const;
  /// Why it is invalid. Precondition: !valid().
  [[nodiscard]] const Error& error() const;
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] const Shape& shape() const;

  /// Conversion: floats to integers truncate toward zero, saturate, NaN gives 0; integers wrap;
  /// anything to boolean is "!= 0".
  [[nodiscard]] Tensor cast(DType dtype) const;
  /// The same bits as another dtype of the same size.
  [[nodiscard]] Tensor bitcast(DType dtype) const;

  // Views: no data is moved where they stand; kernels read through them. Axes count from 0, or from -1
  // backwards.

  /// The same elements in row-major order under another shape. One dimension may be -1: what remains.
  [[nodiscard]] Tensor reshape(Shape shape) const;
  /// Axis i of the result is axis axes[i] of this tensor.
  [[nodiscard]] Tensor permute(std::vector<int> axes) const;
  [[nodiscard]] Tensor swap_dims(int a, int b) const;
  /// The last two axes swapped.
  [[nodiscard]] Tensor transpose() const;
  /// Dimensions of 1 are stretched, and new ones put in front, as NumPy broadcasts.
  [[nodiscard]] Tensor broadcast_to(Shape shape) const;
  /// A dimension of 1 put in at `axis` of the result.
  [[nodiscard]] Tensor unsqueeze(int axis) const;
  /// Removes a dimension of 1.
  [[nodiscard]] Tensor squeeze(int axis) const;
  /// Elements start, start + step, ... before `end` along one axis; bounds are clamped as NumPy's are, and
  /// negative ones count from the end. Steps are not 0. Symbolic axes: whole, reversed, or what their `min` promises.
  [[nodiscard]] Tensor slice(int axis, std::int64_t start, std::int64_t end, std::int64_t step = 1) const;
  /// Index `index` along an axis, which is removed. An index out of range is an error.
  [[nodiscard]] Tensor select(int axis, std::int64_t index) const;
  /// The order of elements turned round along these axes.
  [[nodiscard]] Tensor reverse(std::vector<int> axes) const;
  /// Every axis repeated: repeat({2, 1}) of [n, m] is [2n, m].
  [[nodiscard]] Tensor repeat(const std::vector<std::int64_t>& times) const;
  /// `low` and `high` elements of `value` put around each axis; negative amounts cut instead.
  [[nodiscard]] Tensor pad(std::vector<std::int64_t> low, std::vector<std::int64_t> high, double value = 0) const;
  /// Windows of `size` elements, each `dilation` apart, starting every `stride` elements of one axis: the
  /// axis then counts windows, and the window's elements are appended as the last axis.
  [[nodiscard]] Tensor unfold(int axis, std::int64_t size, std::int64_t stride = 1, std::int64_t dilation = 1) const;
  /// This tensor with `update` written over the elements that slice(starts, steps) of update's shape would
  /// read. They must exist.
  [[nodiscard]] Tensor slice_assign(const Tensor& update, std::vector<std::int64_t> starts,
                                    std::vector<std::int64_t> steps = {}) const;

  // Positions that are data: integers, i32 or i64 or u32. What is out of range is clamped to the nearest
  // element (gather, take_along) or dropped (scatter); never a wild access.

  /// Axis `axis` is replaced by the axes of `indices`: result[a, i..., b] = this[a, indices[i...], b].
  [[nodiscard]] Tensor gather(const Tensor& indices, int axis) const;
  /// result[..., i, ...] = this[..., indices[..., i, ...], ...]: ranks are equal, and the other dimensions
  /// of `indices` are this tensor's or 1.
  [[nodiscard]] Tensor take_along(const Tensor& indices, int axis) const;
  /// This tensor [n, ...] with rows updates[k] joined onto row indices[k], for k in order; `mode` is "set",
  /// "add", "mul", "max" or "min". Indices are [k], updates [k, ...].
  [[nodiscard]] Tensor scatter(const Tensor& indices, const Tensor& updates, std::string_view mode = "set") const;

  /// This tensor [..., n, ...] with `rows` [..., k, ...] in place of its rows from a start on, along `axis`. `starts`
  /// are one number, or one for each position of the first axes, before `axis`. A start below 0 counts as 0, and rows
  /// past the end are left out. With `circular` they go on at the beginning; k is then at most n.
  ///
  /// Or `starts` has one axis more, of k: a position for each row. Rows whose position is below 0 or past the end are
  /// left out. Where positions are equal, one of the rows is written, not always the same.
  ///
  /// Where the result lies in this tensor's buffer (both are bound to it, or the input is donated), a run writes the
  /// rows and touches nothing else: how a cache of keys grows. Elsewhere a run copies this tensor first.
  [[nodiscard]] Tensor update_rows(const Tensor& starts, const Tensor& rows, int axis, bool circular = false) const;

  // Reductions over any axes; no axes means all. With keep_dims the axes stay as 1.
  // f16 and bf16 are added up in f32.
  [[nodiscard]] Tensor sum(std::vector<int> axes = {}, bool keep_dims = false) const;
  [[nodiscard]] Tensor prod(std::vector<int> axes = {}, bool keep_dims = false) const;
  /// Floats only.
  [[nodiscard]] Tensor mean(std::vector<int> axes = {}, bool keep_dims = false) const;
  /// NaN if one is there. An empty axis is an error.
  [[nodiscard]] Tensor max(std::vector<int> axes = {}, bool keep_dims = false) const;
  [[nodiscard]] Tensor min(std::vector<int> axes = {}, bool keep_dims = false) const;
  /// Booleans only.
  [[nodiscard]] Tensor any(std::vector<int> axes = {}, bool keep_dims = false) const;
  [[nodiscard]] Tensor all(std::vector<int> axes = {}, bool keep_dims = false) const;
  /// i32: the position of the first largest element; of the first NaN if there is one.
  [[nodiscard]] Tensor argmax(int axis, bool keep_dims = false) const;
  [[nodiscard]] Tensor argmin(int axis, bool keep_dims = false) const;
  /// Any reduction row of docs/ops.md by its name.
  [[nodiscard]] Tensor reduce(std::string_view op, std::vector<int> axes = {}, bool keep_dims = false) const;

  // Running folds along one axis.
  [[nodiscard]] Tensor cumsum(int axis, bool exclusive = false, bool reverse = false) const;
  [[nodiscard]] Tensor cumprod(int axis, bool exclusive = false, bool reverse = false) const;
  [[nodiscard]] Tensor cummax(int axis, bool exclusive = false, bool reverse = false) const;
  [[nodiscard]] Tensor cummin(int axis, bool exclusive = false, bool reverse = false) const;

  /// i32 positions of the sorted order along an axis; the first `count` of them, or all. Equal elements
  /// keep their order; NaN is larger than infinity. take_along gives the values.
  [[nodiscard]] Tensor argsort(int axis, bool descending = false, std::int64_t count = 0) const;

  struct Node;  // internal
  explicit Tensor(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  [[nodiscard]] const std::shared_ptr<const Node>& node() const { return node_; }

 private:
  std::shared_ptr<const Node> node_;
};

/// Tensors joined along one axis; the other dimensions are equal.
Tensor concat(const std::vector<Tensor>& tensors, int axis);

// Compositions of the above, in the order of ops a person would write; fused by structure, not by name.

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
/// (x - mean) / sqrt(variance + epsilon) over `axes`; scale and bias follow as ordinary ops.
Tensor normalize(const Tensor& x, std::vector<int> axes, double epsilon);
/// x / sqrt(mean(x^2) + epsilon) over `axes`.
Tensor rms_normalize(const Tensor& x, std::vector<int> axes, double epsilon);
/// -log_softmax(logits)[r, label[r]] for logits [rows, classes] and integer labels [rows].
Tensor cross_entropy(const Tensor& logits, const Tensor& labels);
Tensor silu(const Tensor& x);
/// The largest (or smallest) `count` elements along an axis, best first, and their positions as i32.
struct TopK {
  Tensor values;
  Tensor positions;
};
TopK top_k(const Tensor& x, std::int64_t count, int axis = -1, bool largest = true);
/// x / keep where the random bit of the element is set with probability `keep`, else 0.
Tensor dropout(const Tensor& x, double keep, std::uint64_t seed);

// Arithmetic with NumPy broadcasting; a number is rounded to the tensor's dtype. Both operands have
// the same dtype: nothing is promoted silently.
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);

}  // namespace VKFUSE_PUBLIC
