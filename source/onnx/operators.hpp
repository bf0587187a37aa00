// The import functions, by family: each is named in the operator table and nowhere else.
#pragma once

#include "onnx/operator_table.hpp"

namespace vkfuse::onnx {

// elementwise.cpp: arithmetic
Result<Outputs> apply_primitive(const NodeContext&);    ///< the row's primitive, on the operands as they are
Result<Outputs> import_arithmetic(const NodeContext&);  ///< the same, and on the host where operands are known
Result<Outputs> import_variadic(const NodeContext&);    ///< the primitive, folded over the operands from the left
Result<Outputs> import_mean(const NodeContext&);
Result<Outputs> import_mod(const NodeContext&);
Result<Outputs> import_pow(const NodeContext&);
Result<Outputs> import_bit_shift(const NodeContext&);
Result<Outputs> import_clip_6(const NodeContext&);
Result<Outputs> import_clip_11(const NodeContext&);

// activations.cpp
Result<Outputs> import_celu(const NodeContext&);
Result<Outputs> import_elu(const NodeContext&);
Result<Outputs> import_gelu(const NodeContext&);
Result<Outputs> import_hard_sigmoid(const NodeContext&);
Result<Outputs> import_hard_swish(const NodeContext&);
Result<Outputs> import_leaky_relu(const NodeContext&);
Result<Outputs> import_mish(const NodeContext&);
Result<Outputs> import_prelu(const NodeContext&);
Result<Outputs> import_selu(const NodeContext&);
Result<Outputs> import_shrink(const NodeContext&);
Result<Outputs> import_softplus(const NodeContext&);
Result<Outputs> import_softsign(const NodeContext&);
Result<Outputs> import_swish(const NodeContext&);
Result<Outputs> import_thresholded_relu(const NodeContext&);

// logic.cpp
Result<Outputs> import_is_inf(const NodeContext&);
Result<Outputs> import_where(const NodeContext&);

// casts.cpp
Result<Outputs> import_cast(const NodeContext&);
Result<Outputs> import_cast_like(const NodeContext&);
Result<Outputs> import_quantize(const NodeContext&);
Result<Outputs> import_dequantize(const NodeContext&);

// windows.cpp
Result<Outputs> import_blackman_window(const NodeContext&);
Result<Outputs> import_hamming_window(const NodeContext&);
Result<Outputs> import_hann_window(const NodeContext&);

// generators.cpp: values made from shapes and attributes
Result<Outputs> import_constant(const NodeContext&);
Result<Outputs> import_constant_of_shape(const NodeContext&);
Result<Outputs> import_dropout_6(const NodeContext&);
Result<Outputs> import_dropout_7(const NodeContext&);
Result<Outputs> import_dropout_12(const NodeContext&);
Result<Outputs> import_expand(const NodeContext&);
Result<Outputs> import_eye_like(const NodeContext&);
Result<Outputs> import_identity(const NodeContext&);
Result<Outputs> import_range(const NodeContext&);
Result<Outputs> import_shape(const NodeContext&);
Result<Outputs> import_size(const NodeContext&);

}  // namespace vkfuse::onnx
