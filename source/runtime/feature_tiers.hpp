// Which features of the open device kernels may use: what it has, the linked compiler compiles, a self-test has shown
// to be right, and a measurement to be worth it.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "base/target.hpp"
#include "runtime/cooperative_matrices.hpp"
#include "runtime/first_demand.hpp"
#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// The feature tiers whose features a device has, with those that they use as well.
std::array<bool, kFeatureTierCount> offered_tiers(const Caps& caps);

/// What a graph may make of cooperative matrices beyond their products, each with a test.
struct MatrixUses {
  std::span<const DType> workgroup_tiles = {};  ///< of these dtypes workgroups multiply tiles as one
  bool sub_byte = false;                        ///< weights of four bits
  bool lane_fragments = false;                  ///< few rows, whose fragments lanes make
};

/// Everything is tested and measured on first demand. Thread-safe. The device outlives it.
class FeatureTiers {
 public:
  explicit FeatureTiers(OpenDevice& opened) : opened_(opened), costs_(opened), matrices_(opened, costs_) {}

  /// The device as kernels may use it. A feature tier is in it only if it is requested, so that no other program waits
  /// for its self-test.
  Result<Target> target(std::span<const FeatureTier> requested, const MatrixUses& uses = {});

  /// Why a feature tier is not used, or an empty string if it is.
  Result<std::string> missing(FeatureTier tier);
  /// See FloatControls::exp_of_nan.
  Result<bool> exp_of_nan();
  /// See DeviceCosts.
  Result<std::optional<CostModel>> costs() { return costs_.get(); }
  [[nodiscard]] CooperativeMatrices& matrices() { return matrices_; }

 private:
  Result<std::string> find_missing(FeatureTier tier);
  /// What a self-test, or a measurement, says against a tier.
  Result<std::string> find_fault(FeatureTier tier);
  /// What T4 adds to a target.
  Result<void> add_matrices(Caps& caps, const MatrixUses& uses);

  OpenDevice& opened_;
  DeviceCosts costs_;
  CooperativeMatrices matrices_;
  std::array<FirstDemand<std::string>, kFeatureTierCount> missing_;
  FirstDemand<bool> exp_of_nan_;
};

}  // namespace vkfuse::runtime
