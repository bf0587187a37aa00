// Caps by name: what `devices` prints, and what --limit and --disable may lower.
#include <algorithm>
#include <variant>

#include "runtime/context.hpp"

namespace vkfuse::runtime {

namespace {

struct Limit {
  const char* name;
  std::variant<std::uint32_t Caps::*, std::uint64_t Caps::*> member;
};
constexpr Limit kLimits[] = {
    {"max_invocations", &Caps::max_invocations},
    {"max_workgroup_x", &Caps::max_workgroup_x},
    {"max_groups_per_axis", &Caps::max_groups_per_axis},
    {"shared_memory_bytes", &Caps::shared_memory_bytes},
    {"storage_buffers", &Caps::storage_buffers},
    {"push_constant_bytes", &Caps::push_constant_bytes},
    {"storage_range", &Caps::storage_buffer_range},
    {"max_allocation", &Caps::max_allocation},
    {"subgroup_size", &Caps::subgroup_size},
    {"lane_registers", &Caps::registers_per_thread},
    {"workgroup_registers", &Caps::workgroup_registers},
};

constexpr std::string_view kMemoryLimit = "memory_bytes";

struct Feature {
  const char* name;
  bool Caps::*member;
};
constexpr Feature kFeatures[] = {
    {"subgroup_shuffle", &Caps::subgroup_shuffle},
    {"subgroup_size_control", &Caps::subgroup_size_control},
    {"full_subgroups", &Caps::full_subgroups},
    {"storage_16bit", &Caps::storage_16bit},
    {"storage_8bit", &Caps::storage_8bit},
    {"float16", &Caps::float16},
    {"round_to_even_f16", &Caps::round_to_even_f16},
    {"keep_nan_f32", &Caps::keep_nan_f32},
    {"keep_nan_f64", &Caps::keep_nan_f64},
    {"keep_denorms_f16", &Caps::keep_denorms_f16},
    {"int8", &Caps::int8},
    {"int16", &Caps::int16},
    {"int64", &Caps::int64},
    {"float64", &Caps::float64},
    {"executable_statistics", &Caps::executable_statistics},
};

std::uint64_t value_of(const Caps& caps, const Limit& limit) {
  return std::visit([&](auto member) { return static_cast<std::uint64_t>(caps.*member); }, limit.member);
}

bool is_tier(const std::string& name) {
  for (int i = 1; i < kFeatureTierCount; ++i) {  // nothing does without T0
    if (name == name_of(static_cast<FeatureTier>(i))) return true;
  }
  return false;
}

}  // namespace

DeviceDescription describe(int index, const vulkan::DeviceInfo& info, const Caps& caps) {
  DeviceDescription made;
  made.index = index;
  made.name = info.name;
  made.uuid = vulkan::to_text(info.device_uuid);
  made.driver = info.driver_name + (info.driver_info.empty() ? "" : " " + info.driver_info);
  made.api = info.api_version;
  made.type = std::string(name_of(info.type));
  made.memory_bytes = info.device_memory();
  for (const Limit& limit : kLimits) made.limits[limit.name] = value_of(caps, limit);
  std::uint64_t& memory = made.limits[std::string(kMemoryLimit)];
  for (const vulkan::MemoryHeap& heap : info.heaps) memory = heap.device_local ? std::max(memory, heap.bytes) : memory;
  for (const Feature& feature : kFeatures) {
    if (caps.*feature.member) made.features.emplace_back(feature.name);
  }
  return made;
}

Result<void> restrict_caps(const DeviceOptions& options, Caps& caps) {
  const Caps offered = caps;
  for (const auto& requested : options.limits) {
    if (requested.first == kMemoryLimit) continue;
    const auto* limit = std::find_if(std::begin(kLimits), std::end(kLimits),
                                     [&](const Limit& one) { return requested.first == one.name; });
    if (limit == std::end(kLimits))
      return invalid("There is no limit named '{}'; 'vkfuse devices' lists them.", requested.first);
    const std::uint64_t has = value_of(caps, *limit);
    if (requested.second > has)
      return invalid("The limit {} is {} on this device and cannot be raised to {}.", requested.first, has,
                     requested.second);
    if (requested.second == 0) return invalid("The limit {} cannot be 0.", requested.first);
    std::visit(
        [&](auto member) {
          caps.*member = static_cast<std::remove_reference_t<decltype(caps.*member)>>(requested.second);
        },
        limit->member);
  }
  for (const std::string& name : options.disable) {
    if (is_tier(name) || name == "calibration") continue;
    const auto* feature =
        std::find_if(std::begin(kFeatures), std::end(kFeatures), [&](const Feature& one) { return name == one.name; });
    if (feature == std::end(kFeatures))
      return invalid("'{}' is neither a feature tier (T1 to T5) nor a feature; 'vkfuse devices' lists them.", name);
    caps.*feature->member = false;
  }
  return settle_lowered(offered, caps);
}

Result<std::uint64_t> restrict_memory(const DeviceOptions& options, std::uint64_t heap_bytes) {
  const auto requested = options.limits.find(std::string(kMemoryLimit));
  if (requested == options.limits.end()) return heap_bytes;
  if (requested->second == 0) return invalid("The limit {} cannot be 0.", kMemoryLimit);
  if (requested->second > heap_bytes)
    return invalid("The limit {} is {} on this device and cannot be raised to {}.", kMemoryLimit, heap_bytes,
                   requested->second);
  return requested->second;
}

}  // namespace vkfuse::runtime
