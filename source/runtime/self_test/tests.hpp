// The tests, a file each: empty if the device passed, else what is wrong.
#pragma once

#include "base/target.hpp"
#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// T1: threads of full subgroups are numbered without gaps, and exchange 32-bit words and floats with every mask that
/// reductions take.
Result<std::string> test_subgroups(OpenDevice& opened);

/// T2: conversions round to nearest even and keep subnormals, infinities and NaN.
Result<std::string> test_float16(OpenDevice& opened);

/// T3: signed bytes, four at a time.
Result<std::string> test_integer_dot(OpenDevice& opened);

/// T4: both orders in shared memory, sums that go on, and what is not finite reaches its row alone.
Result<std::string> test_matrices(OpenDevice& opened, const MatrixShape& shape);

/// T4: weights of four and eight bits in fragments of 16-bit elements, which may look like any number or none, codes of
/// floats that have no leading one as f16, and one vector as all columns, or parts of it.
Result<std::string> test_sub_byte(OpenDevice& opened, const MatrixShape& shape);

/// T4: lanes have those elements of fragments of which lowering::lane_fragment_functions() makes them.
Result<std::string> test_lane_fragments(OpenDevice& opened, const MatrixShape& shape);

/// T5: functions of elements and their positions, the largest of each row, and sums that become an operand.
Result<std::string> test_matrix_functions(OpenDevice& opened);

/// T5: a tile that the workgroup multiplies as one and brings from memory by layouts, as it lies there and transposed,
/// with a function of elements. Results leave as f16, rounded to nearest even; of bf16 operands as f32.
Result<std::string> test_workgroup_tile(OpenDevice& opened, DType dtype, const WorkgroupTile& tile);

/// What exponentials and inverse roots make of NaN, infinities and zeros.
Result<std::string> test_exponentials(OpenDevice& opened);

}  // namespace vkfuse::runtime
