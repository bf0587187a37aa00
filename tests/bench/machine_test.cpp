#include "machine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "build_info.hpp"
#include "nvml.hpp"

namespace vkfuse::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint32_t kAmd = 0x1002, kIntel = 0x8086;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text << "\n";
}

/// A card of /sys with those PCI numbers; its folder.
fs::path card(const fs::path& root, const std::string& name, std::uint32_t vendor, std::uint32_t device) {
  const fs::path folder = root / "sys/class/drm" / name;
  put(folder / "device/vendor", fmt::format("0x{:04x}", vendor));
  put(folder / "device/device", fmt::format("0x{:04x}", device));
  return folder;
}

json sensors_of(std::uint32_t vendor, std::uint32_t device, const fs::path& root) {
  vulkan::DeviceInfo info;
  info.type = DeviceType::discrete;
  info.vendor_id = vendor;
  info.device_id = device;
  return sensors(info, root);
}

class SensorsTest : public ::testing::Test {
 protected:
  const fs::path root = fs::path(::testing::TempDir()) / fmt::format("vkfuse-sensors-{}", getpid());
  void TearDown() override { fs::remove_all(root); }
};

TEST_F(SensorsTest, AmdsFilesAreReadInTheirUnits) {
  const fs::path monitor = card(root, "card1", kAmd, 0x744c) / "device/hwmon/hwmon3";
  put(monitor / "temp1_input", "61000");
  put(monitor / "power1_average", "203000000");
  put(monitor / "freq1_input", "2371000000");
  put(monitor / "freq2_input", "1249000000");
  card(root, "card0", kIntel, 0x4680);
  card(root, "card1-DP-1", kAmd, 0x744c);
  const json read = sensors_of(kAmd, 0x744c, root);
  EXPECT_DOUBLE_EQ(read["celsius"], 61);
  EXPECT_DOUBLE_EQ(read["watts"], 203);
  EXPECT_DOUBLE_EQ(read["core_mhz"], 2371);
  EXPECT_DOUBLE_EQ(read["memory_mhz"], 1249);
}

TEST_F(SensorsTest, IntelsFilesAreReadInTheirUnits) {
  const fs::path folder = card(root, "card0", kIntel, 0x56a0);
  put(folder / "device/tile0/gt0/freq0/act_freq", "2050");
  put(folder / "device/hwmon/hwmon1/energy1_input", "7500000");
  const json read = sensors_of(kIntel, 0x56a0, root);
  EXPECT_DOUBLE_EQ(read["core_mhz"], 2050);
  EXPECT_DOUBLE_EQ(read["joules"], 7.5);
  EXPECT_TRUE(read["watts"].is_null());
}

TEST_F(SensorsTest, WhatCannotBeReadIsNull) {
  card(root, "card0", kAmd, 0x744c);
  for (const std::uint32_t device : {0x744cu, 0x1234u}) {
    const json read = sensors_of(kAmd, device, root);
    for (const char* key : {"core_mhz", "memory_mhz", "celsius", "watts"}) {
      ASSERT_TRUE(read.contains(key)) << key;
      EXPECT_TRUE(read[key].is_null()) << key;
    }
  }
}

TEST_F(SensorsTest, OfTwoEqualCardsNoneIsTheDevice) {
  for (const char* name : {"card0", "card1"})
    put(card(root, name, kAmd, 0x744c) / "device/hwmon/hwmon0/power1_average", "90000000");
  EXPECT_TRUE(sensors_of(kAmd, 0x744c, root)["watts"].is_null());
}

TEST(Nvml, ReadsTheDeviceOfTheUuidAndWhatFailsIsMissing) {
  const auto read = nvml_readings("00112233445566778899aabbccddeeff", VKFUSE_TEST_NVML);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->core_mhz, 1980);
  EXPECT_EQ(read->memory_mhz, 2619);
  EXPECT_EQ(read->watts, 412.5);
  EXPECT_FALSE(read->celsius.has_value());
  EXPECT_FALSE(nvml_readings("ff112233445566778899aabbccddeeff", VKFUSE_TEST_NVML).has_value());
  EXPECT_FALSE(nvml_readings("00112233445566778899aabbccddeeff", "no-such-library.so").has_value());
}

TEST(BuildInfo, SaysWhatWasBuiltAndNamesNoFolder) {
  const json build = build_facts(), shaderc = shaderc_facts();
  EXPECT_FALSE(build["version"].get<std::string>().empty());
  EXPECT_FALSE(build["compiler"].get<std::string>().empty());
  EXPECT_EQ(build["flags"].get<std::string>().find('/'), std::string::npos);
  if (build["commit"].is_string()) {
    const std::string commit = build["commit"];
    EXPECT_EQ(commit.substr(0, 12).find_first_not_of("0123456789abcdef"), std::string::npos) << commit;
  }
  EXPECT_TRUE(shaderc["version"].is_null() || shaderc["version"].is_string());
  for (const char* key : {"cooperative_matrix", "cooperative_matrix2", "bfloat16", "integer_dot_product"})
    EXPECT_TRUE(shaderc[key].is_boolean()) << key;
}

}  // namespace
}  // namespace vkfuse::bench
