// Where the tests lie in the source tree: files that they read and compare.
#pragma once

#include <filesystem>

namespace vkfuse::test {

/// tests/ of the tree from which this program was built.
std::filesystem::path tests_folder();

}  // namespace vkfuse::test
