#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ops/op.hpp"
#include "support/folder.hpp"

namespace vkfuse::ops {
namespace {

TEST(Document, OpsPageIsWhatTheTableSays) {
  const std::filesystem::path path = test::tests_folder() / "../docs/ops.md";
  if (std::getenv("VKFUSE_UPDATE_DOCS") != nullptr) std::ofstream(path) << table_markdown();
  std::ostringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), table_markdown()) << "VKFUSE_UPDATE_DOCS=1 on this test rewrites " << path;
}

TEST(Document, EveryRowHasOneLine) {
  const std::string page = table_markdown();
  for (const OpRow& each : table()) {
    const std::string start = "\n| " + std::string(each.name) + " |";
    const std::size_t at = page.find(start);
    EXPECT_NE(at, std::string::npos) << each.name;
    EXPECT_EQ(page.find(start, at + 1), std::string::npos) << each.name;
  }
}

}  // namespace
}  // namespace vkfuse::ops
