// The functions of shaders/, of which a kernel's text has those that it calls.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkfuse::ops {

/// prelude_for() of a list of calls.
std::string prelude_of(std::span<const std::string_view> functions);

/// The names of all functions of the prelude.
std::vector<std::string_view> prelude_functions();

}  // namespace vkfuse::ops
