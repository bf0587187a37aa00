// Runs generated GLSL over words, on the driver the test was started with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/op.hpp"
#include "vulkan/device.hpp"

namespace vkfuse::numeric {

/// One element as the shader's register holds it: `real` of a float dtype, else `integer`, sign- or
/// zero-extended.
struct Value {
  double real = 0;
  std::int64_t integer = 0;
};

/// One function of a batch: the same expression over every element.
struct Job {
  std::string name;  ///< for messages
  std::vector<DType> operand_dtypes;
  DType result_dtype = DType::f32;
  std::string expression;                    ///< over x0, x1, x2
  std::vector<std::vector<Value>> operands;  ///< operands[k][i]; all of one length
  std::vector<Value> results;                ///< filled by run()
};

std::shared_ptr<vulkan::Device> device();

/// True where the device computes with this dtype in the given form.
bool offers(DType dtype, bool native_int64);

/// Whether the runtime uses the device's own exponentials there.
bool keeps_nan_in_exp();

/// Runs every job, several to a kernel, with `keeps_nan` in the execution mode that says so. Throws
/// std::runtime_error with the error's text.
void run(std::vector<Job>& jobs, bool native_int64, bool keeps_nan = false);

}  // namespace vkfuse::numeric
