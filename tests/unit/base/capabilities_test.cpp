// The table of limits and features: names are unique, and every row that kernels depend on is in the text that stored
// plans are compared by.
#include "base/capabilities.hpp"

#include <gtest/gtest.h>

#include <set>

namespace vkfuse {
namespace {

/// Without what Caps has by default.
Caps without_features() {
  Caps caps;
  for (const FeatureRow& feature : feature_rows()) feature.set(caps, false);
  return caps;
}

TEST(CapabilitiesTest, NamesAndMembersAreUnique) {
  std::set<std::string_view> names;
  for (const LimitRow& limit : limit_rows()) EXPECT_TRUE(names.insert(limit.name).second) << limit.name;
  for (const FeatureRow& feature : feature_rows()) EXPECT_TRUE(names.insert(feature.name).second) << feature.name;
  // Two rows of one member would both change with it.
  for (const FeatureRow& feature : feature_rows()) {
    Caps caps = without_features();
    feature.set(caps, true);
    int set = 0;
    for (const FeatureRow& other : feature_rows()) set += other.value(caps) ? 1 : 0;
    EXPECT_EQ(set, 1) << feature.name;
  }
}

TEST(CapabilitiesTest, TextTellsEveryRowThatKernelsDependOn) {
  const std::string before = capabilities_text(without_features());
  for (const LimitRow& limit : limit_rows()) {
    Caps caps = without_features();
    limit.set(caps, limit.value(caps) + 1);
    EXPECT_EQ(limit.value(caps), limit.value({}) + 1) << limit.name;
    EXPECT_NE(capabilities_text(caps), before) << limit.name;
  }
  for (const FeatureRow& feature : feature_rows()) {
    Caps caps = without_features();
    feature.set(caps, true);
    EXPECT_EQ(capabilities_text(caps) != before, feature.shapes_kernels) << feature.name;
  }
  Caps caps = without_features();
  caps.matrix.shapes.push_back({16, 16, 16, DType::f16, DType::f16, DType::f32, DType::f32});
  const std::string shaped = capabilities_text(caps);
  EXPECT_NE(shaped, before);
  caps.matrix.sub_byte = caps.matrix.shapes.front();
  const std::string sub_byte = capabilities_text(caps);
  EXPECT_NE(sub_byte, shaped);
  caps.matrix.lane_fragments = caps.matrix.shapes.front();
  EXPECT_NE(capabilities_text(caps), sub_byte);
}

}  // namespace
}  // namespace vkfuse
