// What work costs is measured once a device and driver, and read from the store afterwards.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "os/system.hpp"
#include "partition/partition.hpp"
#include "runtime/calibrate.hpp"
#include "runtime/context.hpp"
#include "runtime/rates.hpp"
#include "schedule/schedule.hpp"
#include "support/device.hpp"

namespace vkfuse::runtime {
namespace {

using test::must;

class Calibrate : public testing::Test {
 protected:
  Calibrate() {
    const testing::TestInfo& own = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "vkfuse-" + own.name() + std::to_string(os::process_id());
    options_.store.folder = folder_;
  }
  ~Calibrate() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  DeviceOptions options_;
};

TEST_F(Calibrate, MeasuresOnceAndReadsTheStoreAfterwards) {
  const auto first = must(Context::open(options_));
  const auto measured = must(calibrate(first->opened()));
  ASSERT_TRUE(measured);
  EXPECT_GT(measured->copy_gb_per_s, 0.1);
  EXPECT_GT(measured->gflops, 0.1);
  EXPECT_GT(measured->accesses_per_us, 10);
  EXPECT_GT(measured->launch_us, 0.01);
  EXPECT_GE(measured->compute_units, 1);
  const auto second = must(Context::open(options_));
  const std::uint64_t before = second->opened().store().loaded();
  const auto kept = must(calibrate(second->opened()));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->copy_gb_per_s, measured->copy_gb_per_s) << "a second measurement would differ in some digit";
  EXPECT_EQ(kept->launch_us, measured->launch_us);
  EXPECT_EQ(second->opened().store().loaded(), before + 1) << "nothing was compiled, nor read, to measure again";
}

TEST_F(Calibrate, MeasuresAgainWhereTheStoreHoldsNonsense) {
  const auto context = must(Context::open(options_));
  const vulkan::DeviceInfo& info = context->device()->info();
  const std::string key =
      fmt::format("costs of {} {}", vulkan::to_text(info.device_uuid), vulkan::to_text(info.driver_uuid));
  const CostModel nonsense{-1, std::nan(""), 1e300, 0};
  context->opened().store().save(store::Kind::costs, key, std::as_bytes(std::span(&nonsense, 1)));
  const auto measured = must(calibrate(context->opened()));
  ASSERT_TRUE(measured);
  EXPECT_GT(measured->copy_gb_per_s, 0.1);
}

TEST_F(Calibrate, IsNotUsedOnCpusOrWhereItIsSwitchedOff) {
  options_.disable = {"calibration"};
  EXPECT_FALSE(must(must(Context::open(options_))->tiers().costs()));
  const auto context = must(Context::open({}));
  EXPECT_EQ(must(context->tiers().costs()).has_value(), context->device()->info().type != DeviceType::cpu);
}

// Rates of feature tiers, which are compared with what lanes do.

TEST_F(Calibrate, RatesAreMeasuredOnceToo) {
  const auto first = must(Context::open(options_));
  if (!must(first->tiers().target({{FeatureTier::dot_product}})).has(FeatureTier::dot_product))
    GTEST_SKIP() << must(first->tiers().missing(FeatureTier::dot_product));
  const auto measured = must(rate_of_integer_dot(first->opened(), must(first->tiers().costs())));
  ASSERT_TRUE(measured);
  EXPECT_GT(*measured, 0.01);
  const auto second = must(Context::open(options_));
  EXPECT_EQ(must(rate_of_integer_dot(second->opened(), must(second->tiers().costs()))), measured)
      << "a second measurement would differ in some digit";
}

TEST(Rates, AreWorthItWhereLanesAreNotFaster) {
  EXPECT_EQ(slower_than_scalar(30000, 30000), "");
  EXPECT_EQ(slower_than_scalar(900, 30000), "It is slower than without: 900 G multiply-adds/s, and 30000 without it.");
}

TEST_F(Calibrate, ARungThatIsSlowerIsNotUsed) {
  const auto honest = must(Context::open(options_));
  if (!must(honest->tiers().costs()))
    GTEST_SKIP() << "costs are not measured on CPU drivers, which have no tier to compare then";
  const MatrixShape shape = matrix_of(honest->opened().caps(), DType::f16, DType::f32).value_or(MatrixShape{});
  const std::string product = fmt::format("T4, f16 and f32, {} x {} x {} by {}", shape.m, shape.n, shape.k,
                                          honest->opened().caps().subgroup.size);
  if (!must(honest->tiers().missing(FeatureTier::dot_product)).empty() &&
      !must(honest->tiers().missing(FeatureTier::cooperative_matrix)).empty())
    GTEST_SKIP() << "the device has neither T3 nor T4";
  for (const FeatureTier tier : {FeatureTier::dot_product, FeatureTier::cooperative_matrix}) {
    if (!must(honest->tiers().missing(tier)).empty()) continue;
    const vulkan::DeviceInfo& info = honest->device()->info();
    const double slow = 1;
    const std::string key = fmt::format("rate of {} {} {}", tier == FeatureTier::dot_product ? "T3" : product,
                                        vulkan::to_text(info.device_uuid), vulkan::to_text(info.driver_uuid));
    honest->opened().store().save(store::Kind::costs, key, std::as_bytes(std::span(&slow, 1)));
    const auto told = must(Context::open(options_));
    EXPECT_EQ(must(told->tiers().missing(tier)).rfind("It is slower than without: 1 G multiply-adds/s", 0), 0U)
        << must(told->tiers().missing(tier));
  }
}

}  // namespace
}  // namespace vkfuse::runtime
