// Expressions of op rows as code, in the form that a device needs.
#pragma once

#include <span>

#include "kernel/code.hpp"
#include "lowering/packing.hpp"

namespace vkfuse::lowering {

/// ops::expression; empty where the op is not offered.
Code expression(const ops::OpRow& row, DType dtype, const Dialect& dialect, std::span<const Code> operands);
/// ops::cast_expression; empty where there is none.
Code cast_expression(DType from, DType to, const Dialect& dialect, const Code& operand);
/// ops::bitcast_expression.
Code bitcast_expression(DType from, DType to, const Dialect& dialect, const Code& operand);
/// ops::narrow.
Code narrow(DType dtype, const Dialect& dialect, const Code& operand);
/// Whether narrow() changes anything.
bool narrows(DType dtype);

}  // namespace vkfuse::lowering
