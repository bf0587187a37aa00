// What is fuzzed: the bytes of a model, through the importer to a graph.
#pragma once

#include <cstdint>
#include <string>

namespace vkfuse::onnx {

/// Imports the bytes as load_onnx does a file, with no folder beside it; true if they are a sound model. Ends the process
/// where the importer calls an input its own fault.
bool import_bytes(const std::string& bytes);

}  // namespace vkfuse::onnx
