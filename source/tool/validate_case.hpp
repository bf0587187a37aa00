// Validation of ONNX test cases: a folder with a model and its test data.
#pragma once

#include <filesystem>

#include "tool/output_source.hpp"

namespace vkfuse::tool {

/// Runs every data set of a case.
CaseResult validate_data_sets(const OutputSource& source, const std::filesystem::path& folder,
                              const ValidateOptions& options);

}  // namespace vkfuse::tool
