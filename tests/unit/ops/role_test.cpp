#include <gtest/gtest.h>

#include <map>

#include "ops/op.hpp"

namespace vkfuse::test {
namespace {

/// What is recognised by its role is one op.
TEST(Roles, AreOfOneRowEach) {
  std::map<ops::Role, std::string_view> rows;
  for (const ops::OpRow& row : ops::table()) {
    if (row.role == ops::Role::none) continue;
    EXPECT_TRUE(rows.emplace(row.role, row.name).second) << row.name << " and " << rows[row.role];
  }
  for (int role = 1; role <= static_cast<int>(ops::Role::reduce_max); ++role)
    EXPECT_TRUE(rows.contains(static_cast<ops::Role>(role))) << "no op has role " << role;
}

}  // namespace
}  // namespace vkfuse::test
