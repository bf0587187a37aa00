// Which products and tiles of cooperative matrices kernels may use, where T4 is in use.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/target.hpp"
#include "runtime/calibrate.hpp"
#include "runtime/first_demand.hpp"
#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// Everything is tested and measured on first demand. Thread-safe. The device and its costs outlive it.
class CooperativeMatrices {
 public:
  CooperativeMatrices(OpenDevice& opened, DeviceCosts& costs) : opened_(opened), costs_(costs) {}

  /// Of the products that the device offers, those that T4 uses and that have passed its test.
  Result<std::vector<MatrixShape>> tested();
  /// The product for weights of four bits, whose test has shown that bits of any kind pass through its fragments.
  Result<std::optional<MatrixShape>> sub_byte();
  /// The product whose fragments lanes make, as a test has shown which elements each of them has.
  Result<std::optional<MatrixShape>> lane_fragments();
  /// What workgroups multiply as one, of all these dtypes, as tests have shown.
  Result<std::vector<WorkgroupTile>> tiles_of(std::span<const DType> dtypes);

  /// Why products of a kind are not used; empty if they are.
  Result<std::string> missing(const MatrixKind& kind);

  /// Which products there are, and why not others.
  Result<std::string> describe();

 private:
  /// Of each of kMatrixKinds, why it is not used; empty if it is.
  using Missing = std::array<std::string, std::size(kMatrixKinds)>;
  Result<Missing> missing();
  Result<std::string> find_missing(const MatrixKind& kind);
  Result<std::vector<WorkgroupTile>> workgroup_tiles(DType dtype);
  Result<std::vector<WorkgroupTile>> find_workgroup_tiles(DType dtype);
  Result<std::optional<MatrixShape>> find_sub_byte();
  Result<std::optional<MatrixShape>> find_lane_fragments();

  OpenDevice& opened_;
  DeviceCosts& costs_;
  FirstDemand<Missing> missing_;
  FirstDemand<std::optional<MatrixShape>> sub_byte_, lane_fragments_;
  std::array<FirstDemand<std::vector<WorkgroupTile>>, kDTypeCount> workgroup_tiles_;
};

}  // namespace vkfuse::runtime
