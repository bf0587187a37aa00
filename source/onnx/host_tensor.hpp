// Values that are known while the graph is being imported, and the little arithmetic that shape
// computations in models need.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// Reads one element. Floats are exact in double; u64 comes as its bit pattern in element_int.
double element_real(const TensorData& tensor, std::size_t index);
std::int64_t element_int(const TensorData& tensor, std::size_t index);

std::size_t element_count(const TensorData& tensor);

/// A scalar or vector of i64.
TensorData int64_data(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values);

/// The elements cast to another dtype, as Tensor::cast does it. Nothing for casts that shape
/// arithmetic does not need (to 8- and 16-bit types from floats, from u64 to floats, large ones).
std::optional<TensorData> converted(const TensorData& tensor, DType dtype);

/// a op b for op in add, sub, mul, div, min, max, of one dtype, where one has one element or the
/// shapes are equal: enough for the shape arithmetic of models. Nothing for other operands: the
/// value is then only known to the device.
std::optional<TensorData> arithmetic(std::string_view op, const TensorData& a, const TensorData& b);

}  // namespace vkfuse::onnx
