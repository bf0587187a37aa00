#include "onnx/operator_table.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "support/folder.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {
namespace {

TEST(OnnxOperatorTable, IsSortedWithoutOverlaps) {
  const auto rows = operator_table();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_LE(rows[i].since, rows[i].until) << rows[i].name;
    EXPECT_EQ(rows[i].import == nullptr && rows[i].host == nullptr, has_graphs(rows[i].control)) << rows[i].name;
    EXPECT_EQ(rows[i].host == nullptr, rows[i].most == nullptr) << rows[i].name;
    if (i == 0) continue;
    EXPECT_LE(rows[i - 1].name, rows[i].name);
    EXPECT_TRUE(rows[i - 1].name != rows[i].name || rows[i - 1].until < rows[i].since) << rows[i].name;
  }
}

TEST(OnnxOperatorTable, FindsTheRowOfAnOpset) {
  for (const OperatorRow& row : operator_table()) {
    EXPECT_EQ(find_operator(row.domain, row.name, row.since), &row) << row.name;
    EXPECT_EQ(find_operator(row.domain, row.name, row.until), &row) << row.name;
  }
  EXPECT_EQ(find_operator(kOnnxDomain, "Clip", 5), nullptr);
  EXPECT_EQ(find_operator(kOnnxDomain, "Clip", kNewestOpset + 1), find_operator(kOnnxDomain, "Clip", kNewestOpset));
  EXPECT_EQ(find_operator("other", "Clip", 13), nullptr);
  EXPECT_EQ(find_operator(kOnnxDomain, "Nothing", 13), nullptr);
}

TEST(OnnxOperatorTable, NamesTheOpsetsOfAnOperator) {
  EXPECT_EQ(opsets_of(kOnnxDomain, "Clip"), "6 to 10 and 11+");
  EXPECT_EQ(opsets_of("com.microsoft", "Gelu"), "1");
  EXPECT_EQ(opsets_of(kOnnxDomain, "Nothing"), "");
}

TEST(OnnxOperatorTable, IsTheDocumentedOne) {
  const std::filesystem::path path = test::tests_folder() / "../docs/onnx.md";
  if (std::getenv("VKFUSE_UPDATE_DOCS") != nullptr) std::ofstream(path) << operator_table_markdown();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), operator_table_markdown())
      << "Run vkfuse-test-unit with VKFUSE_UPDATE_DOCS=1 to rewrite docs/onnx.md.";
}

}  // namespace
}  // namespace vkfuse::onnx
