// Layers that the rows of networks are made of, as frameworks have them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace vkfuse::bench {

/// Of a convolution over two axes with as much padding as keeps their length at stride 1.
struct Convolution {
  std::int64_t features = 0;
  std::int64_t taps = 1;
  std::int64_t stride = 1;
  bool depthwise = false;
};

/// Writes a network: its weights become inputs, and what a framework's ops store is remembered.
class Network {
 public:
  explicit Network(DType dtype) : dtype_(dtype) {}

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] Tensor input(const char* name, Shape shape) const {
    return Tensor::input(name, dtype_, std::move(shape));
  }
  /// An input of a name that starts with `name`, for values that are learnt. Those of sums start with "weight", which
  /// the rows have small (Traits::small).
  Tensor learnt(const std::string& name, Shape shape);
  /// The result of one op of a framework.
  Tensor op(Tensor result);
  /// The program of these outputs, and what is stored between ops for the framework's.
  [[nodiscard]] Built built(std::vector<Tensor> outputs) { return framework_ops(std::move(outputs), stored_); }

  // Each of these is one op of a framework.

  /// x [..., in] times [in, features], with a bias unless it is left out.
  Tensor linear(const Tensor& x, std::int64_t features, bool bias = true);
  /// Over the last axis, with a scale and a bias.
  Tensor layer_norm(const Tensor& x);
  /// Over the last axis in f32, with a scale in x's dtype.
  Tensor rms_norm(const Tensor& x);
  /// x [batch, channels, height, width]; a bias for each channel.
  Tensor conv(const Tensor& x, const Convolution& how);
  /// Of `groups` groups of channels, with a scale and a bias for each channel.
  Tensor group_norm(const Tensor& x, std::int64_t groups);
  Tensor gelu_erf(const Tensor& x);
  Tensor silu(const Tensor& x);
  Tensor relu(const Tensor& x);
  Tensor add(const Tensor& a, const Tensor& b) { return op(a + b); }

 private:
  DType dtype_;
  int count_ = 0;
  std::vector<Tensor> stored_;
};

}  // namespace vkfuse::bench
