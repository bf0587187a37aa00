// Drivers that compute wrong numbers: the modules that a device is given are changed on their way there. A self-test
// finds it on first demand, the tier is not used, and results are right; without the self-test they would not be.
#include <gtest/gtest.h>

#include "api/states.hpp"
#include "support/compare.hpp"
#include "support/fuzz.hpp"
#include "unit/store/fixture.hpp"

namespace vkfuse::test {
namespace {

using Words = std::vector<std::uint32_t>;

/// An instruction of SPIR-V, and what the driver makes of it, which is valid: layers look at it, too. `free_id` is a
/// result that the module does not use yet.
struct Fault {
  const char* name;
  FeatureTier tier;
  std::uint32_t opcode;
  Words (*instead)(std::span<const std::uint32_t> instruction, std::uint32_t& free_id);
  const char* graph;
  schedule::Tuning tuning;
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

constexpr std::uint32_t op(std::uint32_t words, std::uint32_t code) { return words << 16 | code; }

const Fault kFaults[] = {
    {"shuffles_stay_in_their_lane",
     FeatureTier::subgroup,
     346,  // OpGroupNonUniformShuffleXor becomes OpCopyObject
     [](std::span<const std::uint32_t> one, std::uint32_t&) {
       return Words{op(4, 83), one[1], one[2], one[4]};
     },
     R"(graph "g" {
  %0 = input "x" : f32[6, 500]
  %1 = reduce_sum axes=[1] %0 : f32[6]
  output "y" = %1
})",
     {.reduction_threads = 4}},
    {"shuffles_take_the_mask_for_a_lane",
     FeatureTier::subgroup,
     346,  // OpGroupNonUniformShuffle
     [](std::span<const std::uint32_t> one, std::uint32_t&) {
       Words words(one.begin(), one.end());
       words[0] = op(6, 345);
       return words;
     },
     R"(graph "g" {
  %0 = input "x" : f32[6, 500]
  %1 = reduce_max axes=[1] %0 : f32[6]
  output "y" = %1
})",
     {.reduction_threads = 4}},
    {"conversions_change_the_sign",
     FeatureTier::float16,
     115,  // OpFConvert, then OpFNegate
     [](std::span<const std::uint32_t> one, std::uint32_t& free_id) {
       const std::uint32_t converted = free_id++;
       return Words{op(4, 115), one[1], converted, one[3], op(4, 127), one[1], one[2], converted};
     },
     R"(graph "g" {
  %0 = input "x" : f32[1000]
  %1 = cast %0 : f16[1000]
  output "y" = %1
})",
     {}},
    {"bytes_are_multiplied_by_themselves",
     FeatureTier::dot_product,
     4450,  // OpSDot of one factor
     [](std::span<const std::uint32_t> one, std::uint32_t&) {
       Words words(one.begin(), one.end());
       words[4] = one[3];
       return words;
     },
     R"(graph "g" {
  %0 = input "a" : i8[16, 64]
  %1 = input "b" : i8[16, 64]
  %2 = cast %0 : i32[16, 64]
  %3 = cast %1 : i32[16, 64]
  %4 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[1] %2 %3 : i32[16, 16]
  output "y" = %4
})",
     {.matmul = true, .integer_dot = true}},
};

const Fault* planted = nullptr;
int changed = 0;
PFN_vkCreateShaderModule real_create = nullptr;

/// The module as this driver takes it.
Words miscompiled(std::span<const std::uint32_t> module) {
  Words words(module.begin(), module.begin() + 5);
  std::uint32_t free_id = module[3];
  for (std::size_t at = 5; at < module.size(); at += module[at] >> 16) {
    const auto one = module.subspan(at, module[at] >> 16);
    const bool wrong = (one[0] & 0xffff) == planted->opcode;
    const Words next = wrong ? planted->instead(one, free_id) : Words(one.begin(), one.end());
    words.insert(words.end(), next.begin(), next.end());
    changed += wrong ? 1 : 0;
  }
  words[3] = free_id;
  return words;
}

VKAPI_ATTR VkResult VKAPI_CALL create_miscompiled(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                  const VkAllocationCallbacks* callbacks, VkShaderModule* module) {
  const Words words = miscompiled({info->pCode, info->codeSize / 4});
  VkShaderModuleCreateInfo own = *info;
  own.codeSize = words.size() * 4;
  own.pCode = words.data();
  return real_create(device, &own, callbacks, module);
}

class SelfTest : public testing::TestWithParam<Fault> {
 protected:
  SelfTest() { changed = 0; }

  [[nodiscard]] Device opened(const StoreOptions& store = {
                                  .enabled = false}) {  // what this driver makes of kernels is nothing to keep
    DeviceOptions options;
    options.store = store;
    options.log = [this](LogLevel level, std::string_view sentence) {
      if (level == LogLevel::warning) warnings_ += std::string(sentence) + "\n";
    };
    return must(Device::open(options));
  }

  void miscompile() {
    auto& calls = const_cast<vulkan::DeviceFunctions&>(device_.state()->context->device()->functions());
    planted = &GetParam();
    real_create = calls.CreateShaderModule.pointer;
    calls.CreateShaderModule.pointer = create_miscompiled;
  }
  [[nodiscard]] std::string missing() const { return must(device_.state()->context->tiers().missing(GetParam().tier)); }
  [[nodiscard]] Executable compiled() const {
    Build how;
    how.device = &device_;
    how.tuning = GetParam().tuning;
    return compile_graph(graph_, how);
  }

  ir::Graph graph_ = must(ir::parse(GetParam().graph));
  Data data_ = small_data(graph_, 3, false);
  std::string warnings_;
  Device device_ = opened();
};

TEST_P(SelfTest, FindsItAndDoesWithout) {
  const std::string otherwise = must(device().state()->context->tiers().missing(GetParam().tier));
  if (!otherwise.empty()) GTEST_SKIP() << name_of(GetParam().tier) << " is not in use here: " << otherwise;
  miscompile();
  const std::string reason = missing();
  EXPECT_EQ(reason.rfind("The self-test failed: ", 0), 0U) << reason;
  EXPECT_NE(warnings_.find(fmt::format("{} is not used on '", name_of(GetParam().tier))), std::string::npos)
      << warnings_;
  changed = 0;
  compare_with_reference(compiled(), graph_, data_, GetParam().name);
  EXPECT_EQ(changed, 0) << "no kernel holds what the driver gets wrong";
}

/// Else the test above would show nothing.
TEST_P(SelfTest, IsWhatKeepsResultsRight) {
  const std::string reason = missing();
  if (!reason.empty()) GTEST_SKIP() << name_of(GetParam().tier) << " is not in use here: " << reason;
  miscompile();  // only now
  const GuardedRun run = run_guarded(compiled(), graph_, data_);
  EXPECT_GT(changed, 0);
  EXPECT_NE(check_outputs(graph_, data_, run.outputs).wrong, "");
}

TEST_P(SelfTest, WhatPassedIsKeptAndWhatFailedIsTriedAgain) {
  const std::string otherwise = must(device().state()->context->tiers().missing(GetParam().tier));
  if (!otherwise.empty()) GTEST_SKIP() << name_of(GetParam().tier) << " is not in use here: " << otherwise;
  const store::test::ScratchFolder folder;
  const auto verdict = [&](bool wrong) {
    device_ = opened(folder.options());
    if (wrong) miscompile();
    changed = 0;
    return missing();
  };
  EXPECT_NE(verdict(true), "");
  EXPECT_GT(changed, 0);
  EXPECT_EQ(verdict(false), "") << "the failure was kept";
  EXPECT_EQ(verdict(true), "");
  EXPECT_EQ(changed, 0) << "it ran again";
}

INSTANTIATE_TEST_SUITE_P(Drivers, SelfTest, testing::ValuesIn(kFaults),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace vkfuse::test
