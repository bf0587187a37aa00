// Validation of models that run in parts, with the host between them.
#pragma once

#include <filesystem>

#include "tool/test_data.hpp"
#include "tool/validation.hpp"

namespace vkfuse::tool {

/// Random inputs through the device, the host and the reference.
CaseResult validate_model_in_parts(const Device& device, const std::filesystem::path& path,
                                   const ValidateOptions& options);

/// Runs one data set. Returns what is wrong; nothing if all agrees.
Result<std::string> run_data_set_in_parts(const Device& device, const std::filesystem::path& model, DataSet data_set,
                                          Validation& validation);

}  // namespace vkfuse::tool
