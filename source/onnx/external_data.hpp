// Initialisers stored beside the model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "onnx/schema.hpp"

namespace vkfuse::onnx {

/// The `expected` bytes of a tensor with external data. A model is untrusted and names a file to
/// open, so the file must lie in `folder` or below it, reached without "..", absolute paths or
/// symbolic links; its length is checked before memory is taken.
Result<std::vector<std::byte>> read_external_data(const pb::TensorProto& tensor, const std::filesystem::path& folder,
                                                  std::int64_t expected);

}  // namespace vkfuse::onnx
