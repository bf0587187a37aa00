// What this program was built from, by which compiler, and what its shaderc can do.
#pragma once

#include <nlohmann/json.hpp>

namespace vkfuse::bench {

/// "version", "commit" (null: built outside a repository), "compiler", "flags" and "build_type".
nlohmann::json build_facts();

/// "version" (null: the packages that it was built with do not say), "identity", and whether it compiles
/// "cooperative_matrix", "cooperative_matrix2", "bfloat16" and "integer_dot_product".
nlohmann::json shaderc_facts();

}  // namespace vkfuse::bench
