// TensorProto -> TensorData: the six ways ONNX stores elements become one.
#pragma once

#include <filesystem>

#include "base/error.hpp"
#include "onnx/schema.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// The dtype of a TensorProto.DataType, or a sentence that names the type vkfuse does not have
/// (strings, complex numbers, 4- and 8-bit floats); `what` says whose type it is.
Result<DType> dtype_from(int data_type, const std::string& what);

/// The elements of a tensor. `folder` is where external data may lie; empty means that external
/// data is refused. The stored length is compared with the stated shape before anything is allocated.
Result<TensorData> decode_tensor(const pb::TensorProto& tensor, const std::filesystem::path& folder);

}  // namespace vkfuse::onnx
