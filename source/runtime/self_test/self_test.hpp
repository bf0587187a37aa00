// Known-answer tests of the feature tiers. A driver that computes something else than the feature tier
// promises is found here, on the user's machine, and the feature tier is not used.
#pragma once

#include "base/target.hpp"
#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// Of one feature tier on the open device: empty if it passed, else what is wrong. What cannot even be compiled or run
/// has not passed, but a lost device is an error.
Result<std::string> self_test(OpenDevice& opened, FeatureTier tier);
/// The same of one product of T4.
Result<std::string> self_test_matrices(OpenDevice& opened, const MatrixShape& shape);
/// The same of a tile of `dtype` that a workgroup multiplies as one.
Result<std::string> self_test_workgroup_tile(OpenDevice& opened, DType dtype, const WorkgroupTile& tile);
/// The same of fragments of bits that become weights of four bits (MatrixCaps::sub_byte).
Result<std::string> self_test_sub_byte(OpenDevice& opened, const MatrixShape& shape);
Result<std::string> self_test_lane_fragments(OpenDevice& opened, const MatrixShape& shape);

/// Whether exponentials and inverse roots of NaN and infinities are what IEEE has them be on the open device, which
/// offers keep_nan_f32.
Result<bool> test_exp_of_nan(OpenDevice& opened);

}  // namespace vkfuse::runtime
