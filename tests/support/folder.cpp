#include "support/folder.hpp"

namespace vkfuse::test {

std::filesystem::path tests_folder() { return VKFUSE_TESTS_FOLDER; }

}  // namespace vkfuse::test
