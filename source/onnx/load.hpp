// Reading models for the command.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// load_onnx, where the caller goes on with the host if operators need it: values are not asked for what the host can
/// do.
Result<OnnxModel> load_before_host(const std::filesystem::path& path, const OnnxOptions& options);

/// compile_onnx, where only values of the options decide what is computed: those of a run may be random.
Result<OnnxProgram> compile_given(const Device& device, const std::filesystem::path& path, const OnnxOptions& options,
                                  const CompileOptions& compile_options);

/// The names of the inputs that a file's graph must be given, in order.
Result<std::vector<std::string>> input_names_of(const std::filesystem::path& path);

}  // namespace vkfuse::onnx
