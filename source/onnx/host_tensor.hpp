// Reading the elements of values that are known while the graph is being imported.
#pragma once

#include <vector>

#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// Reads one element. Floats are exact in double; u64 comes as its bit pattern in element_int.
double element_real(const TensorData& tensor, std::size_t index);
std::int64_t element_int(const TensorData& tensor, std::size_t index);

std::size_t element_count(const TensorData& tensor);

/// The same numbers, rounded to another float dtype.
TensorData converted(const TensorData& tensor, DType dtype);

/// A scalar or vector of i64.
TensorData int64_data(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values);

}  // namespace vkfuse::onnx
