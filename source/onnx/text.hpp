// Names from a model file, made fit to print.
#pragma once

#include <string>
#include <string_view>

#include "vkfuse/dtype.hpp"

namespace vkfuse::onnx {

/// 'name' in quotes for an error message: what does not print becomes "?", and what is longer than a
/// line is cut. The bytes come from a file that nobody has vouched for.
std::string in_quotes(std::string_view name);

/// ONNX's name of a TensorProto.DataType ("FLOAT16"), or its number for one that is not known.
std::string data_type_name(int data_type);

}  // namespace vkfuse::onnx
