// Where models are read from.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "onnx/external_data.hpp"
#include "onnx/text.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// A model as it is stored: a file, or bytes in the caller's memory.
class ModelSource {
 public:
  ModelSource(const std::filesystem::path& path) : path_(path), name_(in_quotes(path.string())) {}
  ModelSource(std::span<const std::byte> bytes) : bytes_(bytes), name_("the model in memory") {}

  [[nodiscard]] Result<pb::ModelProto> read() const;
  /// Where its external data lies: beside the file, or in the memory that the options name, which must outlive this.
  [[nodiscard]] ExternalFiles files(const OnnxOptions& options) const;
  /// For messages.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::optional<std::filesystem::path> path_;
  std::span<const std::byte> bytes_;
  std::string name_;
};

}  // namespace vkfuse::onnx
