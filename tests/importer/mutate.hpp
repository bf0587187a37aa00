// Changes to models: most stay messages, so that what is tried is the importer and not the parser.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "onnx/schema.hpp"

namespace vkfuse::onnx {

using Random = std::mt19937_64;

/// A changed copy; `other` is a model from which parts may be taken.
std::string mutated(const std::string& bytes, const std::string& other, Random& random);

/// Small models that import: one for every operator, as far as plain operands suit it, and a few of several nodes.
std::vector<std::string> seed_models();

}  // namespace vkfuse::onnx
