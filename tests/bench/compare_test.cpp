#include "compare.hpp"

#include <gtest/gtest.h>

#include "report_text.hpp"

namespace vkfuse::bench {
namespace {

using nlohmann::json;

json ten_rows(double factor_of_row_3, std::uint64_t seed) {
  json rows = json::array();
  for (int i = 0; i < 10; ++i) {
    rows.push_back(measured_row("row" + std::to_string(i), 100.0 * (i + 1) * (i == 3 ? factor_of_row_3 : 1),
                                seed + static_cast<std::uint64_t>(i)));
  }
  return report_of(rows);
}

TEST(Compare, FindsAPlantedSlowdownOfTenPercentAndNothingElse) {
  const auto result = compare(ten_rows(1, 100), ten_rows(1.1, 200), {});
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_TRUE(result->regressed());
  for (const Change& change : result->changes) {
    EXPECT_EQ(change.finding, change.name == "row3:f32:4096" ? Finding::slower : Finding::same) << change.name;
    EXPECT_LE(change.low, change.ratio);
    EXPECT_GE(change.high, change.ratio);
  }
}

TEST(Compare, NoiseIsNoRegression) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto result = compare(ten_rows(1, 1000 + 100 * seed), ten_rows(1, 9000 + 100 * seed), {.resamples = 200});
    ASSERT_TRUE(result.ok());
    EXPECT_FALSE(result->regressed()) << "seed " << seed;
    EXPECT_NEAR(result->mean_ratio, 1, 0.02);
  }
}

TEST(Compare, AThresholdAboveTheSlowdownLetsItPass) {
  const auto result = compare(ten_rows(1, 100), ten_rows(1.1, 200), {.threshold = 15});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->regressed());
}

TEST(Compare, AGainIsNoRegression) {
  const auto result = compare(ten_rows(1, 100), ten_rows(0.8, 200), {});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->regressed());
  EXPECT_EQ(result->changes[3].finding, Finding::faster);
}

TEST(Compare, ReportsWithoutSamplesAreComparedByTheirQuantiles) {
  json before = ten_rows(1, 100), after = ten_rows(1.1, 200);
  for (json* report : {&before, &after}) {
    for (json& row : (*report)["rows"]) row.erase("samples");
  }
  const auto result = compare(before, after, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->changes[3].finding, Finding::slower);
  EXPECT_NEAR(result->changes[3].ratio, 1.1, 1e-6);
}

TEST(Compare, ARowThatBecameWrongIsARegression) {
  json after = ten_rows(1, 200);
  after["rows"][5] = {
      {"name", "row5"}, {"case", "row5:f32:4096"}, {"outcome", "wrong"}, {"detail", "fused: 1 of 2 samples differ."}};
  const auto result = compare(ten_rows(1, 100), after, {});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->regressed());
  EXPECT_EQ(result->changes[5].finding, Finding::broken);
}

TEST(Compare, RelativeTimesIgnoreASlowerMachine) {
  json after = ten_rows(1, 200);
  for (json& row : after["rows"]) {
    for (json& us : row["samples"]["fused"]) us = us.get<double>() * 1.5;
    row["fused_us"] = row["fused_us"].get<double>() * 1.5;
    row["copy_us"] = row["copy_us"].get<double>() * 1.5;
  }
  const json before = ten_rows(1, 100);
  EXPECT_TRUE(compare(before, after, {})->regressed());
  EXPECT_FALSE(compare(before, after, {.relative = true})->regressed());
}

TEST(Compare, RowsOfOneReportAreNamedAndNothingInCommonIsAnError) {
  json after = ten_rows(1, 200);
  after["rows"].erase(0);
  const auto result = compare(ten_rows(1, 100), after, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->only_one, std::vector<std::string>{"row0:f32:4096"});
  const auto none = compare(report_of(json::array()), after, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace vkfuse::bench
