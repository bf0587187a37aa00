// Stored tensors as values of the program, those of 4-bit integers included.
#pragma once

#include "onnx/external_data.hpp"
#include "onnx/schema.hpp"
#include "onnx/value.hpp"

namespace vkfuse::onnx {

/// A constant with the elements of a stored tensor; `files` as for decode_tensor. Integers of 4 bits stay two in a
/// byte, and kernels take them apart where they read them.
Result<Value> value_from(const pb::TensorProto& tensor, const ExternalFiles& files);

}  // namespace vkfuse::onnx
