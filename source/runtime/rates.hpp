// How fast the open device multiplies bytes and matrices.
#pragma once

#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// What is wrong with a tier's speed, measured once a device and driver: empty where it multiplies at least as fast as
/// threads do without it, or where nothing can be measured. `costs` are those of the device (FeatureTiers::costs).
Result<std::string> compare_integer_dot(OpenDevice& opened, const std::optional<CostModel>& costs);
Result<std::string> compare_matrices(OpenDevice& opened, const MatrixShape& shape,
                                     const std::optional<CostModel>& costs);
/// 10^9 multiply-adds of bytes in a second; nothing where they cannot be measured.
Result<std::optional<double>> rate_of_integer_dot(OpenDevice& opened, const std::optional<CostModel>& costs);
/// The sentence for two rates in 10^9 multiply-adds a second, or nothing.
std::string slower_than_scalar(double rate, double lanes);

}  // namespace vkfuse::runtime
