// Stored tensors as values of the program, those of 4-bit integers included.
#pragma once

#include <filesystem>

#include "onnx/schema.hpp"
#include "onnx/value.hpp"

namespace vkfuse::onnx {

/// A constant with the elements of a stored tensor; `folder` as for decode_tensor. Integers of 4 bits stay two in a
/// byte, and kernels take them apart where they read them.
Result<Value> value_from(const pb::TensorProto& tensor, const std::filesystem::path& folder);

}  // namespace vkfuse::onnx
