#include "runtime/caps.hpp"

#include <algorithm>

#include "base/capabilities.hpp"
#include "base/error.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::string_view kMemoryLimit = "memory_bytes";

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
  for (const LimitRow& limit : limit_rows()) {
    if (limit.visibility == Visibility::user) made.limits[std::string(limit.name)] = limit.value(caps);
  }
  std::uint64_t& memory = made.limits[std::string(kMemoryLimit)];
  for (const vulkan::MemoryHeap& heap : info.heaps) memory = heap.device_local ? std::max(memory, heap.bytes) : memory;
  for (const FeatureRow& feature : feature_rows()) {
    if (feature.visibility == Visibility::user && feature.value(caps)) made.features.emplace_back(feature.name);
  }
  const auto model = info.model != nullptr ? info.model : model_of(info.identity());
  made.architecture = model->name;
  for (const Figure& figure : figures()) {
    const Number& number = figure.of(*model);
    made.figures.push_back({fmt::format("{}.{}", figure.group, figure.name), number.value, std::string(figure.unit),
                            fmt::format("{}: {}", name_of(number.source->kind), number.source->text)});
  }
  return made;
}

Result<void> restrict_caps(const DeviceOptions& options, Caps& caps) {
  const Caps offered = caps;
  for (const auto& requested : options.limits) {
    if (requested.first == kMemoryLimit) continue;
    // The name of version 0.1 is read, too.
    const std::string_view name =
        requested.first == "lane_registers" ? std::string_view("registers_per_thread") : requested.first;
    const auto limit = std::find_if(limit_rows().begin(), limit_rows().end(), [&](const LimitRow& row) {
      return row.visibility == Visibility::user && name == row.name;
    });
    if (limit == limit_rows().end())
      return invalid("There is no limit named '{}'; 'vkfuse devices' lists them.", requested.first);
    const std::uint64_t has = limit->value(caps);
    if (requested.second > has)
      return invalid("The limit {} is {} on this device and cannot be raised to {}.", requested.first, has,
                     requested.second);
    if (requested.second == 0) return invalid("The limit {} cannot be 0.", requested.first);
    limit->set(caps, requested.second);
  }
  for (const std::string& name : options.disable) {
    if (is_tier(name) || name == "calibration") continue;
    const auto feature = std::find_if(feature_rows().begin(), feature_rows().end(), [&](const FeatureRow& row) {
      return row.visibility == Visibility::user && name == row.name;
    });
    if (feature == feature_rows().end())
      return invalid("'{}' is neither a feature tier (T1 to T5) nor a feature; 'vkfuse devices' lists them.", name);
    feature->set(caps, false);
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
