// Code that the user gives, as it stands in a shader.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "kernel/kernel.hpp"

namespace vkfuse::lowering {

struct CustomFunction {
  std::string name;
  std::string text;
  int code_begins = 1;  ///< the line of the text on which the user's begins
};

/// The function of one element behind a `custom` node, or a sentence about a dtype that the device has no registers
/// for.
Result<CustomFunction> custom_function(const ir::Graph& graph, const ir::Node& node, bool native_int64);

/// A shader that has this function and nothing else: what is wrong with the code is then wrong there, too. Nothing of a
/// kernel is in its scope.
Kernel custom_check(const CustomFunction& function);
/// The line of that shader on which the user's code begins.
int custom_check_line(const CustomFunction& function);

}  // namespace vkfuse::lowering
