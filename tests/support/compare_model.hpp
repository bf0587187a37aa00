// Whole models by the rule of reference/output_comparison.hpp, as in vkfuse validate.
#pragma once

#include "support/compare.hpp"

namespace vkfuse::test {

/// Fused beside the reference and one kernel per op, which is compiled and run for it. Adds a test failure, with a map
/// of what is wrong. With `as_files` every element of f32 is also finite and within the tolerance of a file, of which a
/// wide bound is at most sixteen. Returns the largest error over what is allowed.
double compare_model(const Executable& program, const ir::Graph& graph, const Data& data, const std::string& what,
                     bool as_files = false);

/// The same of outputs that have been computed; `unfused` may be empty.
double compare_outputs(const ir::Graph& graph, const Data& data, const NamedBytes& outputs, const NamedBytes& unfused,
                       const std::string& what, bool as_files = false);

}  // namespace vkfuse::test
