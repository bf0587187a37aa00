// Which features of the open device kernels may use: what it has, the linked compiler compiles, a self-test has shown to
// be right, and a measurement to be worth it.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/target.hpp"
#include "runtime/first_demand.hpp"
#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// Everything is tested and measured on first demand. Thread-safe. The device outlives it.
class FeatureTiers {
 public:
  explicit FeatureTiers(OpenDevice& opened) : opened_(opened) {}

  /// The device as kernels may use it. A feature tier is in it only if it is requested, so that nobody else waits for
  /// its self-test.
  /// `workgroup_scope` are the dtypes of which tiles are requested that a workgroup multiplies as one; with `sub_byte`,
  /// so are weights of four bits.
  Result<Target> target(std::span<const FeatureTier> requested, std::span<const DType> workgroup_scope = {},
                        bool sub_byte = false);

  /// Why a feature tier is not used, or an empty string if it is.
  Result<std::string> missing(FeatureTier tier);
  /// Which products T4 has, where it is in use, and why not others.
  Result<std::string> matrices();
  /// See Target::costs. Nothing for CPU drivers, whose plans would differ with what else the machine does, and where
  /// "calibration" is switched off.
  Result<std::optional<CostModel>> costs();
  /// See Caps::exp_of_nan.
  Result<bool> exp_of_nan();

 private:
  /// Of each of kMatrixKinds, why it is not used; empty if it is.
  using MissingMatrices = std::array<std::string, std::size(kMatrixKinds)>;

  Result<std::string> find_missing(FeatureTier tier);
  /// What a self-test, or a measurement, says against a tier.
  Result<std::string> find_fault(FeatureTier tier);
  Result<std::string> slower_matrices(const MatrixShape& shape);

  /// What T4 adds to a target.
  Result<void> add_matrices(Caps& caps, bool sub_byte);
  /// Whether workgroups multiply tiles of all these dtypes.
  Result<bool> multiplies_tiles(std::span<const DType> dtypes);

  Result<MissingMatrices> missing_matrices();
  Result<std::string> find_missing_matrix(const MatrixKind& kind);
  /// Of the products that the device offers, those that T4 uses and that have passed its test.
  Result<std::vector<MatrixShape>> tested_matrices();
  /// Whether a workgroup multiplies tiles of that dtype, as a test has shown.
  Result<bool> workgroup_tiles(DType dtype);
  Result<bool> find_workgroup_tiles(DType dtype);
  /// The product for weights of four bits, whose test has shown that bits of any kind pass through its fragments.
  Result<std::optional<MatrixShape>> matrix_sub_byte();
  Result<std::optional<MatrixShape>> find_matrix_sub_byte();

  OpenDevice& opened_;
  std::array<FirstDemand<std::string>, kFeatureTierCount> missing_;
  FirstDemand<MissingMatrices> missing_matrices_;
  std::array<FirstDemand<bool>, kDTypeCount> workgroup_tiles_;
  FirstDemand<std::optional<MatrixShape>> matrix_sub_byte_;
  FirstDemand<bool> exp_of_nan_;
  FirstDemand<std::optional<CostModel>> costs_;
};

}  // namespace vkfuse::runtime
