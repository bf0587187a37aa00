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

namespace vkfuse {

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

  struct Node;  // internal
  explicit Tensor(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  [[nodiscard]] const std::shared_ptr<const Node>& node() const { return node_; }

 private:
  std::shared_ptr<const Node> node_;
};

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

}  // namespace vkfuse
