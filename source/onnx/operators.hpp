// The import functions, by family: each is named in the operator table and nowhere else.
#pragma once

#include "onnx/operator_table.hpp"

namespace vkfuse::onnx {

// elementwise.cpp: arithmetic
Result<Outputs> apply_primitive(const NodeContext&);    ///< the row's primitive, on the operands as they are
Result<Outputs> apply_primitive_6(const NodeContext&);  ///< the same, with the broadcasting of opsets before 7
Result<Outputs> import_variadic(const NodeContext&);    ///< the primitive, reduced over the operands from the left
Result<Outputs> import_mean(const NodeContext&);
Result<Outputs> import_mod(const NodeContext&);
Result<Outputs> import_pow(const NodeContext&);
Result<Outputs> import_pow_6(const NodeContext&);
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
Result<Outputs> import_prelu_6(const NodeContext&);
Result<Outputs> import_selu(const NodeContext&);
Result<Outputs> import_shrink(const NodeContext&);
Result<Outputs> import_softplus(const NodeContext&);
Result<Outputs> import_softsign(const NodeContext&);
Result<Outputs> import_swiglu(const NodeContext&);
Result<Outputs> import_swish(const NodeContext&);
Result<Outputs> import_thresholded_relu(const NodeContext&);

// logic.cpp
Result<Outputs> import_is_inf(const NodeContext&);
Result<Outputs> import_where(const NodeContext&);

// casts.cpp
Result<Outputs> import_cast(const NodeContext&);
Result<Outputs> import_bit_cast(const NodeContext&);
Result<Outputs> import_cast_like(const NodeContext&);

// quantization.cpp
Result<Outputs> import_quantize(const NodeContext&);
Result<Outputs> import_dequantize(const NodeContext&);
Result<Outputs> import_dynamic_quantize(const NodeContext&);

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
Result<Outputs> import_eye_like(const NodeContext&);
Result<Outputs> import_identity(const NodeContext&);
Result<Outputs> import_range(const NodeContext&);
Result<Outputs> import_shape(const NodeContext&);
Result<Outputs> import_size(const NodeContext&);

// shapes.cpp
Result<Outputs> import_reshape(const NodeContext&);
Result<Outputs> import_flatten(const NodeContext&);
Result<Outputs> import_squeeze(const NodeContext&);
Result<Outputs> import_unsqueeze(const NodeContext&);
Result<Outputs> import_transpose(const NodeContext&);
Result<Outputs> import_expand(const NodeContext&);
Result<Outputs> import_tile(const NodeContext&);
Result<Outputs> import_depth_to_space(const NodeContext&);
Result<Outputs> import_space_to_depth(const NodeContext&);

// slicing.cpp
Result<Outputs> import_concat(const NodeContext&);
Result<Outputs> import_slice(const NodeContext&);
Result<Outputs> import_split(const NodeContext&);
Result<Outputs> import_pad(const NodeContext&);
Result<Outputs> import_center_crop_pad(const NodeContext&);
Result<Outputs> import_trilu(const NodeContext&);

// reductions.cpp
Result<Outputs> import_reduce(const NodeContext&);
Result<Outputs> import_reduce_extreme(const NodeContext&);
Result<Outputs> import_reduce_mean(const NodeContext&);
Result<Outputs> import_reduce_l1(const NodeContext&);
Result<Outputs> import_reduce_sum_square(const NodeContext&);
Result<Outputs> import_reduce_l2(const NodeContext&);
Result<Outputs> import_reduce_log_sum(const NodeContext&);
Result<Outputs> import_reduce_log_sum_exp(const NodeContext&);
Result<Outputs> import_arg_max(const NodeContext&);
Result<Outputs> import_arg_min(const NodeContext&);
Result<Outputs> import_cumulative(const NodeContext&);

// softmax.cpp
Result<Outputs> import_softmax(const NodeContext&);
Result<Outputs> import_log_softmax(const NodeContext&);
Result<Outputs> import_hardmax(const NodeContext&);

// normalization.cpp
Result<Outputs> import_batch_normalization(const NodeContext&);
Result<Outputs> import_layer_normalization(const NodeContext&);
Result<Outputs> import_rms_normalization(const NodeContext&);
Result<Outputs> import_instance_normalization(const NodeContext&);
Result<Outputs> import_group_normalization(const NodeContext&);
Result<Outputs> import_mean_variance_normalization(const NodeContext&);
Result<Outputs> import_lp_normalization(const NodeContext&);
Result<Outputs> import_lrn(const NodeContext&);

// pooling.cpp
Result<Outputs> import_max_pool(const NodeContext&);
Result<Outputs> import_average_pool(const NodeContext&);
Result<Outputs> import_lp_pool(const NodeContext&);
Result<Outputs> import_global_pool(const NodeContext&);
Result<Outputs> import_global_lp_pool(const NodeContext&);
Result<Outputs> import_max_unpool(const NodeContext&);

// gathers.cpp
Result<Outputs> import_gather(const NodeContext&);
Result<Outputs> import_gather_elements(const NodeContext&);
Result<Outputs> import_gather_nd(const NodeContext&);
Result<Outputs> import_compress(const NodeContext&);
Result<Outputs> import_one_hot(const NodeContext&);
Result<Outputs> import_reverse_sequence(const NodeContext&);

// scatters.cpp
Result<Outputs> import_scatter_elements(const NodeContext&);
Result<Outputs> import_scatter_nd(const NodeContext&);

// sorting.cpp
Result<Outputs> import_top_k(const NodeContext&);

// losses.cpp
Result<Outputs> import_negative_log_likelihood(const NodeContext&);
Result<Outputs> import_softmax_cross_entropy(const NodeContext&);

// resize.cpp
Result<Outputs> import_resize(const NodeContext&);
Result<Outputs> import_upsample(const NodeContext&);

// matmul.cpp
Result<Outputs> import_matmul(const NodeContext&);
Result<Outputs> import_gemm(const NodeContext&);
Result<Outputs> import_matmul_integer(const NodeContext&);
Result<Outputs> import_qlinear_matmul(const NodeContext&);

// convolution.cpp
Result<Outputs> import_conv(const NodeContext&);
Result<Outputs> import_conv_transpose(const NodeContext&);
Result<Outputs> import_conv_integer(const NodeContext&);
Result<Outputs> import_qlinear_conv(const NodeContext&);

// attention.cpp
Result<Outputs> import_attention(const NodeContext&);

// recurrent.cpp
Result<Outputs> import_rnn(const NodeContext&);
Result<Outputs> import_gru(const NodeContext&);
Result<Outputs> import_lstm(const NodeContext&);
/// An LSTM whose inputs and states are rounded to 8 bits before they are multiplied.
Result<Outputs> import_lstm_that_rounds(const NodeContext&);

// grid_sample.cpp
Result<Outputs> import_grid_sample(const NodeContext&);

// einsum.cpp
Result<Outputs> import_einsum(const NodeContext&);

// images.cpp
Result<Outputs> import_affine_grid(const NodeContext&);
Result<Outputs> import_col2im(const NodeContext&);

// sequences.cpp
Result<Outputs> import_sequence_empty(const NodeContext&);
Result<Outputs> import_sequence_construct(const NodeContext&);
Result<Outputs> import_sequence_insert(const NodeContext&);
Result<Outputs> import_sequence_erase(const NodeContext&);
Result<Outputs> import_optional(const NodeContext&);
Result<Outputs> import_optional_has_element(const NodeContext&);
Result<Outputs> import_optional_get_element(const NodeContext&);
Result<Outputs> import_sequence_at(const NodeContext&);
Result<Outputs> import_sequence_length(const NodeContext&);
Result<Outputs> import_split_to_sequence(const NodeContext&);
Result<Outputs> import_concat_from_sequence(const NodeContext&);

// contrib.cpp: of the domain com.microsoft, and RotaryEmbedding
Result<Outputs> import_fused_matmul(const NodeContext&);
Result<Outputs> import_bias_gelu(const NodeContext&);
Result<Outputs> import_fast_gelu(const NodeContext&);
Result<Outputs> import_quick_gelu(const NodeContext&);
Result<Outputs> import_skip_layer_normalization(const NodeContext&);
Result<Outputs> import_skip_rms_normalization(const NodeContext&);
Result<Outputs> import_rotary_embedding(const NodeContext&);
Result<Outputs> import_contrib_rotary_embedding(const NodeContext&);
Result<Outputs> import_multi_head_attention(const NodeContext&);
Result<Outputs> import_group_query_attention(const NodeContext&);
Result<Outputs> import_matmul_n_bits(const NodeContext&);
Result<Outputs> import_contrib_attention(const NodeContext&);

// contrib_fused.cpp: an operator and what follows it
Result<Outputs> import_fused_conv(const NodeContext&);
Result<Outputs> import_fused_gemm(const NodeContext&);
Result<Outputs> import_bias_split_gelu(const NodeContext&);
Result<Outputs> import_contrib_group_norm(const NodeContext&);
Result<Outputs> import_embed_layer_normalization(const NodeContext&);

// contrib_quantized.cpp
Result<Outputs> import_qlinear_binary(const NodeContext&);
Result<Outputs> import_qlinear_unary(const NodeContext&);
Result<Outputs> import_qlinear_leaky_relu(const NodeContext&);
Result<Outputs> import_qlinear_softmax(const NodeContext&);
Result<Outputs> import_qlinear_global_average_pool(const NodeContext&);
Result<Outputs> import_qlinear_concat(const NodeContext&);
Result<Outputs> import_qgemm(const NodeContext&);
Result<Outputs> import_dynamic_quantize_matmul(const NodeContext&);
Result<Outputs> import_matmul_integer_to_float(const NodeContext&);
Result<Outputs> import_nhwc_max_pool(const NodeContext&);
Result<Outputs> import_gather_block_quantized(const NodeContext&);
Result<Outputs> import_dynamic_quantize_lstm(const NodeContext&);

// experts.cpp: of the domain com.microsoft
Result<Outputs> import_moe(const NodeContext&);
Result<Outputs> import_qmoe(const NodeContext&);

// paged_attention.cpp
Result<Outputs> import_paged_attention(const NodeContext&);

// linear_attention.cpp
Result<Outputs> import_linear_attention(const NodeContext&);
Result<Outputs> import_causal_conv(const NodeContext&);

// caches.cpp
Result<Outputs> import_tensor_scatter(const NodeContext&);

// fourier.cpp
Result<Outputs> import_dft(const NodeContext&);
Result<Outputs> import_stft(const NodeContext&);
Result<Outputs> import_mel_weight_matrix(const NodeContext&);

// determinants.cpp
Result<Outputs> import_det(const NodeContext&);

// regions.cpp
Result<Outputs> import_roi_align(const NodeContext&);
Result<Outputs> import_deform_conv(const NodeContext&);

// random.cpp
Result<Outputs> import_random_uniform(const NodeContext&);
Result<Outputs> import_random_normal(const NodeContext&);
Result<Outputs> import_bernoulli(const NodeContext&);
Result<Outputs> import_multinomial(const NodeContext&);
/// The data and the mask of Dropout; `ratio` and `is_training` are scalars.
Result<Outputs> dropout_in_training(const NodeContext&, const Tensor& ratio, const Tensor& is_training);

// optimizers.cpp
Result<Outputs> import_adam(const NodeContext&);
Result<Outputs> import_adagrad(const NodeContext&);
Result<Outputs> import_momentum(const NodeContext&);

}  // namespace vkfuse::onnx
