// The types that graph inputs and outputs state.
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "onnx/schema.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// The dtype and shape of a graph input. A dim_param becomes a symbol of that name, or the size that
/// the options give it; an unknown dimension becomes the symbol "<input>.<axis>".
Result<TensorType> input_type(const pb::ValueInfoProto& info, const OnnxOptions& options);

/// Gives the symbols of an input the sizes that the options state for it, if they do; an error where the rank or a size differs.
Result<void> take_sizes(const pb::ValueInfoProto& info, OnnxOptions& options);

/// Compares what the graph computes with what it states of an output: an error where the dtype, the
/// rank or a size differs. What is not stated, or symbolic on either side, agrees.
/// `floats` is what f32 has become.
Result<void> check_output(const pb::ValueInfoProto& info, const Tensor& tensor, const std::optional<DType>& floats);

}  // namespace vkfuse::onnx
