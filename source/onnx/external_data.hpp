// Initialisers stored beside the model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "onnx/schema.hpp"

namespace vkfuse::onnx {

/// The `expected` bytes of a tensor with external data. A model is untrusted and names a file to
/// open: by a path from `folder` on, without "..". Links are followed where they end in `folder` or below it, in the
/// blobs of the Hugging Face repository that `folder` is a snapshot of, or in the user's own cache (HF_HUB_CACHE,
/// HF_HOME, XDG_CACHE_HOME,
/// ~/.cache). The length is checked before memory is taken.
Result<std::vector<std::byte>> read_external_data(const pb::TensorProto& tensor, const std::filesystem::path& folder,
                                                  std::int64_t expected);

}  // namespace vkfuse::onnx
