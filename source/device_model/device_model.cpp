#include "device_model/device_model.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <vector>

#include "base/mutations.hpp"
#include "device_model/rows.hpp"

namespace vkfuse {

namespace {

using device_rows::DeviceEntry;

/// The tables in the order in which they are asked. The last entry of the last takes every device.
std::array<std::span<const DeviceEntry>, 5> tables() {
  return {device_rows::nvidia_devices(), device_rows::amd_devices(), device_rows::intel_devices(),
          device_rows::mobile_devices(), device_rows::other_devices()};
}

bool fits(const DeviceEntry& entry, const DeviceIdentity& identity) {
  return (entry.vendor_id == 0 || entry.vendor_id == identity.vendor_id) && identity.device_id >= entry.first_id &&
         identity.device_id <= entry.last_id && (!entry.cpu || identity.type == DeviceType::cpu) &&
         (entry.name.empty() || identity.name.find(entry.name) != std::string_view::npos);
}

const DeviceEntry& entry_of(const DeviceIdentity& identity) {
  for (const std::span<const DeviceEntry> table : tables()) {
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const auto& entry) { return fits(entry, identity); });
    if (found != table.end()) return *found;
  }
  return device_rows::other_devices().back();  // which fits everything
}

std::vector<const DeviceModel*> all_rows() {
  std::vector<const DeviceModel*> rows;
  for (const std::span<const DeviceEntry> table : tables()) {
    for (const DeviceEntry& entry : table) {
      if (std::find(rows.begin(), rows.end(), entry.row) == rows.end()) rows.push_back(entry.row);
    }
  }
  return rows;
}

/// A driver by the name that it gives itself (VkPhysicalDeviceDriverProperties), and what to know of it.
struct DriverEntry {
  std::string_view name;
  DriverWorkarounds workarounds;
  int aborts_from_llvm = 0;  ///< the first version with aborts_on_indexed_stores; 0: none has it
  std::uint32_t shared_memory_bytes = std::numeric_limits<std::uint32_t>::max();  ///< that a kernel may have
  bool register_arrays = true;                                                    ///< RegisterLimits::arrays
};

std::vector<DriverEntry> driver_entries() {
  return {{.name = "llvmpipe",
           .workarounds = {.folds_nan_away = true,
                           // Of 65,535, some of which count twice.
                           .leaves_loops_after =
                               VKF_PLANT(loops_left_early, 32'000, std::numeric_limits<std::int64_t>::max()),
                           .loses_widened_comparisons = VKF_PLANT(widened_by_a_conversion, true, false)},
           .aborts_from_llvm = 16},
          {.name = "Intel open-source Mesa driver", .workarounds = {.loses_widened_comparisons = true}},
          {.name = "MoltenVK", .workarounds = {.hides_stores = true}},
          {.name = "NVIDIA", .workarounds = {.unrolled_iterations = 2304}},
          {.name = "V3DV Mesa", .register_arrays = false},
          // Of Mesa 22.3: it divides by zero while it compiles a GFX9 kernel that takes all of 64 KiB.
          {.name = "radv", .workarounds = {.loses_widened_comparisons = true}, .shared_memory_bytes = 65536 - 256}};
}

/// As the name of a device of lavapipe states it: "llvmpipe (LLVM 19.1.7, 256 bits)"; 0 where it does not.
int llvm_version_of(std::string_view device) {
  constexpr std::string_view kBefore = "LLVM ";
  int version = 0;
  const std::size_t at = device.find(kBefore);
  if (at != std::string_view::npos)
    std::from_chars(device.data() + at + kBefore.size(), device.data() + device.size(), version);
  return version;
}

DriverEntry driver_of(std::string_view name) {
  for (const DriverEntry& entry : driver_entries()) {
    if (entry.name == name) return entry;
  }
  return {};
}

}  // namespace

std::span<const DeviceModel* const> device_model_rows() {
  static const std::vector<const DeviceModel*> rows = all_rows();
  return rows;
}

std::shared_ptr<const DeviceModel> model_of(const DeviceIdentity& identity) {
  const DeviceEntry& entry = entry_of(identity);
  auto model = std::make_shared<DeviceModel>(*entry.row);
  if (identity.compute_units != 0) {
    model->units.count = {static_cast<double>(identity.compute_units), &device_rows::kTold};
  } else if (entry.compute_units != 0) {
    model->units.count = {static_cast<double>(entry.compute_units), &device_rows::kById};
  }
  return model;
}

void apply_model(const DeviceModel& model, Caps& caps) {
  caps.registers.per_thread = static_cast<std::uint32_t>(model.registers.per_thread.value);
  caps.registers.per_workgroup = static_cast<std::uint32_t>(model.registers.per_workgroup.value);
  const auto subgroup = static_cast<std::uint32_t>(model.registers.subgroup.value);
  if (subgroup != 0 && caps.subgroup.size_control && subgroup >= caps.subgroup.size_min &&
      subgroup <= caps.subgroup.size_max)
    caps.subgroup.size = subgroup;
}

std::uint32_t invocations_of_subgroups(const Caps& caps, std::uint32_t subgroup) {
  const std::uint64_t most = std::uint64_t{subgroup} * caps.subgroup.most_in_workgroup;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(caps.workgroup.max_invocations, most));
}

std::shared_ptr<const DeviceModel> calibrated(std::shared_ptr<const DeviceModel> model, const CostModel& costs) {
  if (model == nullptr) return model;
  const Source* known = model->units.count.source;
  if (known == &device_rows::kTold || known == &device_rows::kById || costs.compute_units < 1) return model;
  auto changed = std::make_shared<DeviceModel>(*model);
  changed->units.count = {costs.compute_units, &device_rows::kTimed};
  return changed;
}

const DeviceModel& device_model(const Target& target) {
  return target.model != nullptr ? *target.model : *entry_of({.type = target.type}).row;
}

std::optional<Target> with_narrower_subgroups(const Target& target) {
  const std::uint32_t half = target.caps.subgroup.size / 2;
  if (device_model(target).registers.of_hardware_thread == 0 || !target.caps.subgroup.size_control ||
      half < target.caps.subgroup.size_min)
    return std::nullopt;
  Target narrower = target;
  narrower.caps.subgroup.size = half;
  narrower.caps.registers.per_thread *= 2;
  narrower.caps.workgroup.max_invocations = invocations_of_subgroups(target.caps, half);
  return narrower;
}

DriverWorkarounds workarounds_of(const DeviceIdentity& identity) {
  const DriverEntry driver = driver_of(identity.driver_name);
  DriverWorkarounds workarounds = driver.workarounds;
  workarounds.aborts_on_indexed_stores =
      driver.aborts_from_llvm != 0 && llvm_version_of(identity.name) >= driver.aborts_from_llvm;
  return workarounds;
}

void plan_as(const DeviceIdentity& identity, Target& target) {
  target.type = identity.type;
  target.model = model_of(identity);
  // Others are of bugs that the driver which runs the kernels has or has not.
  const DriverWorkarounds workarounds = workarounds_of(identity);
  target.workarounds.unrolled_iterations = workarounds.unrolled_iterations;
  target.workarounds.hides_stores = target.workarounds.hides_stores || workarounds.hides_stores;
}

void apply_driver_limits(const DeviceIdentity& identity, Caps& caps) {
  const DriverEntry driver = driver_of(identity.driver_name);
  caps.workgroup.shared_memory_bytes = std::min(caps.workgroup.shared_memory_bytes, driver.shared_memory_bytes);
  caps.registers.arrays = caps.registers.arrays && driver.register_arrays;
}

}  // namespace vkfuse
