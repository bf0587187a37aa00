// The message classes that protoc generates from ONNX's schema, under a name that does not collide
// with namespace vkfuse::onnx.
#pragma once

#include <onnx_schema.pb.h>

namespace vkfuse::onnx {

namespace pb = ::onnx;

}  // namespace vkfuse::onnx
