// Code that the user gives: what the compiler says about it, as a sentence.
#pragma once

#include "ir/graph.hpp"
#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// What the compiler says about the first line that is wrong, counted from where the user's code begins in the file.
Error error_in_user_code(const std::string& what, const std::string& file, const std::string& code, int code_begins,
                         const Error& error);

/// An error that names the op and its line unless the code of every `custom` node of the graph is a function by
/// itself; what compiled once is not compiled again.
Result<void> check_custom_code(OpenDevice& opened, const ir::Graph& graph);

}  // namespace vkfuse::runtime
