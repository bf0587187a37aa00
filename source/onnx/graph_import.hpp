// ModelProto -> Tensors.
#pragma once

#include <filesystem>

#include "base/error.hpp"
#include "onnx/schema.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// Imports a parsed model. `folder` is where external data may lie; empty refuses it.
Result<OnnxModel> import_model(const pb::ModelProto& model, const std::filesystem::path& folder,
                               const OnnxOptions& options);

}  // namespace vkfuse::onnx
