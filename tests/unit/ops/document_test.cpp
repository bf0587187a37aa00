#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ops/op.hpp"

namespace vkfuse::ops {
namespace {

TEST(Document, OpsPageIsWhatTheTableSays) {
  const char* path = VKFUSE_TEST_DATA "/../docs/ops.md";
  if (std::getenv("VKFUSE_UPDATE_DOCS") != nullptr) std::ofstream(path) << table_markdown();
  std::ostringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), table_markdown()) << "VKFUSE_UPDATE_DOCS=1 on this test rewrites " << path;
}

}  // namespace
}  // namespace vkfuse::ops
