// Initialisers stored beside the model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "onnx/schema.hpp"

namespace vkfuse::onnx {

/// Where the files are that tensors of a model lie in. The default refuses external data.
struct ExternalFiles {
  using Given = std::map<std::string, std::span<const std::byte>, std::less<>>;

  ExternalFiles() = default;
  ExternalFiles(std::filesystem::path in, const Given* bytes = nullptr) : folder(std::move(in)), given(bytes) {}

  std::filesystem::path folder;  ///< empty: no file is opened
  const Given* given = nullptr;  ///< files in the caller's memory by location, before those of the folder; may be null

  [[nodiscard]] bool refused() const { return folder.empty() && (given == nullptr || given->empty()); }
};

/// The `expected` bytes of a tensor with external data, which is not refused. What is given in memory is found by the
/// location as it is stated. Otherwise the model is untrusted and names a file to open: by a path from the folder on,
/// without "..". Links are followed where they end in the folder or below it, in the blobs of the Hugging Face
/// repository that it is a snapshot of, or in the user's own cache (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, ~/.cache).
/// The length is checked before memory is taken.
Result<std::vector<std::byte>> read_external_data(const pb::TensorProto& tensor, const ExternalFiles& files,
                                                  std::int64_t expected);

}  // namespace vkfuse::onnx
