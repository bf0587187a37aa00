// What work costs on the open device.
#pragma once

#include <optional>

#include "runtime/first_demand.hpp"
#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// The costs of the open device from its store, else measured and stored; nothing where that is impossible.
Result<std::optional<CostModel>> calibrate(OpenDevice& opened);

/// Target::costs of the open device, on first demand. Thread-safe. The device outlives it.
class DeviceCosts {
 public:
  explicit DeviceCosts(OpenDevice& opened) : opened_(opened) {}

  /// Nothing for CPU drivers, whose plans would differ with what else the machine does, and where "calibration" is
  /// switched off.
  Result<std::optional<CostModel>> get();

 private:
  OpenDevice& opened_;
  FirstDemand<std::optional<CostModel>> costs_;
};

}  // namespace vkfuse::runtime
