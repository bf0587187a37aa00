// Reading protobuf messages from files that nobody has vouched for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.hpp"
#include "onnx/schema.hpp"

namespace vkfuse::onnx {

/// Parses a file as one message, or says why not: no such file, not a regular file, larger than
/// protobuf's 2 GiB, truncated, not that kind of message.
Result<pb::ModelProto> read_model_file(const std::filesystem::path& path);
Result<pb::TensorProto> read_tensor_file(const std::filesystem::path& path);

/// The same from memory; `what` names the source in messages.
Result<pb::ModelProto> parse_model(std::span<const std::byte> bytes, const std::string& what);

}  // namespace vkfuse::onnx
