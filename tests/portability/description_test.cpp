// What a driver says of a device, written as text where it runs and read where kernels are planned for it.
#include <gtest/gtest.h>

#include "base/capabilities.hpp"
#include "runtime/feature_tiers.hpp"
#include "support/compare.hpp"
#include "support/described_device.hpp"
#include "support/device.hpp"
#include "vulkan/instance.hpp"

namespace vkfuse::test {
namespace {

vulkan::DeviceInfo info_of_matrix_device() {
  vulkan::DeviceInfo info;
  info.name = "Intel(R) Graphics (BMG G21)";
  info.driver_name = "Intel open-source Mesa driver";
  info.type = DeviceType::discrete;
  info.vendor_id = 0x8086;
  info.heaps = {{std::uint64_t{12} << 30, true}, {std::uint64_t{16} << 30, false}};
  info.caps.subgroup.size_min = 16;
  info.caps.memory.storage_buffer_range = std::uint64_t{1} << 40;
  info.caps.matrix.shapes = {{8, 16, 16, DType::f16, DType::f16, DType::f32, DType::f32},
                             {8, 16, 32, DType::i8, DType::u8, DType::i32, DType::i32}};
  return info;
}

TEST(Description, EveryNumberAndFeatureIsReadAsItWasWritten) {
  for (const FeatureRow& row : feature_rows()) {
    vulkan::DeviceInfo info = info_of_matrix_device();
    row.set(info.caps, true);
    EXPECT_TRUE(row.value(must(parse_device(to_text(info))).caps)) << row.name;
  }
  std::uint64_t number = 1000;
  vulkan::DeviceInfo info = info_of_matrix_device();
  for (const LimitRow& row : limit_rows()) row.set(info.caps, ++number);
  const vulkan::DeviceInfo read = must(parse_device(to_text(info)));
  EXPECT_EQ(capabilities_text(read.caps), capabilities_text(info.caps));
  EXPECT_EQ(to_text(read), to_text(info));
  EXPECT_EQ(read.name, info.name);
  EXPECT_EQ(read.type, DeviceType::discrete);
  EXPECT_EQ(read.device_memory(), std::uint64_t{12} << 30);
  ASSERT_EQ(read.caps.matrix.shapes.size(), 2U);
  EXPECT_EQ(read.caps.matrix.shapes[1].b, DType::u8);
}

TEST(Description, ALineOfNoDeviceIsQuoted) {
  for (const char* line : {"max_invocations many", "max_invocations", "type quantum", "matrix 8 8 16 f16 f16 f32",
                           "matrix 8 8 16 f16 f16 f32 f3", "float16 no", "device_memory -1", "wings 2"}) {
    const auto read = parse_device("name x\n" + std::string(line) + "\n");
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_EQ(read.error().message, fmt::format("No device has the line '{}'.", line));
  }
}

TEST(Description, TiersAreOfferedByFeaturesAndTheTierBelow) {
  const auto instance = must(vulkan::Instance::create());
  for (const vulkan::DeviceInfo& info : instance->devices()) {
    const auto offered = runtime::offered_tiers(must(parse_device(to_text(info))).caps);
    EXPECT_TRUE(offered[static_cast<std::size_t>(FeatureTier::baseline)]);
    EXPECT_EQ(offered[static_cast<std::size_t>(FeatureTier::subgroup)],
              info.caps.subgroup.shuffle && info.caps.subgroup.full);
    EXPECT_EQ(offered[static_cast<std::size_t>(FeatureTier::float16)],
              info.caps.arithmetic.float16 && info.caps.memory.storage_16bit);
  }
  Caps caps;
  caps.matrix.shapes = {{8, 16, 16, DType::f16, DType::f16, DType::f32, DType::f32}};
  caps.subgroup.full = true;
  EXPECT_FALSE(runtime::offered_tiers(caps)[static_cast<std::size_t>(FeatureTier::cooperative_matrix)])
      << "T4 stands on T2";
  caps.arithmetic.float16 = caps.memory.storage_16bit = true;
  EXPECT_TRUE(runtime::offered_tiers(caps)[static_cast<std::size_t>(FeatureTier::cooperative_matrix)]);
}

}  // namespace
}  // namespace vkfuse::test
