#include "onnx/operator_table.hpp"

#include <algorithm>
#include <string>

#include "onnx/host_operators.hpp"
#include "onnx/operators.hpp"

namespace vkfuse::onnx {
namespace {

constexpr OperandCount kUnary{1, 1}, kBinary{2, 2}, kTernary{3, 3}, kMany{1, kVariadic};
constexpr std::int64_t kOld = kOldestOpset, kNew = kNewestOpset;

/// Attributes of opsets before 7, whose broadcasting rule was another.
constexpr std::string_view kLegacyBroadcast = "broadcast axis";
constexpr std::string_view kTraining = "ai.onnx.preview.training";
constexpr std::string_view kContrib = "com.microsoft";
constexpr std::string_view kStaticSizes = "sizes known at import";
constexpr std::string_view kStepsAtOnce = "length known at import, 512 steps at most without the host";
constexpr std::string_view kOnHost = "on the host where the operands are not known at import";

// clang-format off
constexpr OperatorRow kRows[] = {
    {"Abs", kOld, kNew, kUnary, Takes::numbers, apply_primitive, "abs"},
    {"Acos", 7, kNew, kUnary, Takes::floats, apply_primitive, "acos"},
    {"Acosh", 9, kNew, kUnary, Takes::floats, apply_primitive, "acosh"},
    {"Adagrad", 1, 1, {5, kVariadic}, Takes::floats, import_adagrad, "", "decay_factor epsilon norm_coefficient", "",
        kTraining},
    {"Adam", 1, 1, {6, kVariadic}, Takes::floats, import_adam, "",
        "alpha beta epsilon norm_coefficient norm_coefficient_post", "", kTraining},
    {"Add", kOld, 6, kBinary, Takes::numbers, apply_primitive_6, "add", kLegacyBroadcast},
    {"Add", 7, kNew, kBinary, Takes::numbers, apply_primitive, "add"},
    {"AffineGrid", 20, kNew, kBinary, Takes::floats, import_affine_grid, "", "align_corners", "size known at import"},
    {"And", kOld, 6, kBinary, Takes::booleans, apply_primitive_6, "and", kLegacyBroadcast},
    {"And", 7, kNew, kBinary, Takes::booleans, apply_primitive, "and"},
    {"ArgMax", kOld, kNew, kUnary, Takes::numbers, import_arg_max, "", "axis keepdims select_last_index"},
    {"ArgMin", kOld, kNew, kUnary, Takes::numbers, import_arg_min, "", "axis keepdims select_last_index"},
    {"Asin", 7, kNew, kUnary, Takes::floats, apply_primitive, "asin"},
    {"Asinh", 9, kNew, kUnary, Takes::floats, apply_primitive, "asinh"},
    {"Atan", 7, kNew, kUnary, Takes::floats, apply_primitive, "atan"},
    {"Atanh", 9, kNew, kUnary, Takes::floats, apply_primitive, "atanh"},
    {"Attention", 1, 1, {2, 6}, Takes::floats, import_contrib_attention, "",
        "mask_filter_value num_heads qkv_hidden_sizes scale unidirectional", "masks of rank 1 by the count of keys",
        kContrib},
    {"Attention", 23, 24, {3, 7}, Takes::floats, import_attention, "",
        "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision",
        "head sizes known at import"},
    {"Attention", 25, kNew, {3, 7}, Takes::floats, import_attention, "",
        "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale softcap "
        "softmax_precision", "head sizes known at import"},
    {"AveragePool", kOld, kNew, kUnary, Takes::floats, import_average_pool, "",
        "auto_pad ceil_mode dilations kernel_shape pads strides count_include_pad", kStaticSizes},
    {"BatchNormalization", kOld, 13, {5, 5}, Takes::floats, import_batch_normalization, "",
        "epsilon is_test momentum spatial", "inference, statistics per channel"},
    {"BatchNormalization", 14, kNew, {5, 5}, Takes::floats, import_batch_normalization, "",
        "epsilon momentum training_mode"},
    {"Bernoulli", 15, kNew, kUnary, Takes::floats, import_bernoulli, "", "dtype seed"},
    {"BiasGelu", 1, 1, kBinary, Takes::floats, import_bias_gelu, "", "", "", kContrib},
    {"BiasSplitGelu", 1, 1, kBinary, Takes::floats, import_bias_split_gelu, "", "", "", kContrib},
    {"BitCast", 26, kNew, kUnary, Takes::anything, import_bit_cast, "", "to"},
    {"BitShift", 11, 27, kBinary, Takes::unsigned_integers, import_bit_shift, "", "direction"},
    {"BitShift", 28, kNew, kBinary, Takes::integers, import_bit_shift, "", "direction"},
    {"BitwiseAnd", 18, kNew, kBinary, Takes::integers, apply_primitive, "bit_and"},
    {"BitwiseNot", 18, kNew, kUnary, Takes::integers, apply_primitive, "bit_not"},
    {"BitwiseOr", 18, kNew, kBinary, Takes::integers, apply_primitive, "bit_or"},
    {"BitwiseXor", 18, kNew, kBinary, Takes::integers, apply_primitive, "bit_xor"},
    {"BlackmanWindow", 17, kNew, kUnary, Takes::integers, import_blackman_window, "", "output_datatype periodic",
        "size known at import"},
    {"Cast", kOld, kNew, kUnary, Takes::converted, import_cast, "", "to saturate round_mode"},
    {"CastLike", 15, kNew, kBinary, Takes::converted, import_cast_like, "", "saturate round_mode"},
    {"CausalConvWithState", 27, kNew, {2, 4}, Takes::floats, import_causal_conv, "", "activation", kStaticSizes},
    {"Ceil", kOld, kNew, kUnary, Takes::floats, apply_primitive, "ceil"},
    {"Celu", 12, kNew, kUnary, Takes::floats, import_celu, "", "alpha"},
    {"CenterCropPad", 18, kNew, kBinary, Takes::moved, import_center_crop_pad, "", "axes", "shape known at import"},
    {"Clip", kOld, 10, kUnary, Takes::floats, import_clip_6, "", "max min"},
    {"Clip", 11, kNew, {1, 3}, Takes::numbers, import_clip_11},
    {"Col2Im", 18, kNew, kTernary, Takes::numbers, import_col2im, "", "dilations pads strides",
        "shapes known at import"},
    {"Compress", 9, kNew, kBinary, Takes::moved, import_compress, "", "axis", kOnHost, kOnnxDomain, compress,
        most_of_compress},
    {"Concat", kOld, kNew, kMany, Takes::moved, import_concat, "", "axis"},
    {"ConcatFromSequence", 11, kNew, kUnary, Takes::sequences, import_concat_from_sequence, "", "axis new_axis"},
    {"Constant", kOld, kNew, {0, 0}, Takes::converted, import_constant, "",
        "value value_float value_floats value_int value_ints", "dense numbers"},
    {"ConstantOfShape", 9, kNew, kUnary, Takes::integers, import_constant_of_shape, "", "value",
        "shape known at import"},
    {"Conv", 1, kNew, {2, 3}, Takes::floats, import_conv, "", "auto_pad dilations group kernel_shape pads strides",
        kStaticSizes},
    {"ConvInteger", 10, kNew, {2, 4}, Takes::integers, import_conv_integer, "",
        "auto_pad dilations group kernel_shape pads strides", kStaticSizes},
    {"ConvTranspose", 1, kNew, {2, 3}, Takes::floats, import_conv_transpose, "",
        "auto_pad dilations group kernel_shape output_padding output_shape pads strides", kStaticSizes},
    {"Cos", 7, kNew, kUnary, Takes::floats, apply_primitive, "cos"},
    {"Cosh", 9, kNew, kUnary, Takes::floats, apply_primitive, "cosh"},
    {"CumProd", 26, kNew, kBinary, Takes::numbers, import_cumulative, "cumprod", "exclusive reverse",
        "axis known at import"},
    {"CumSum", 11, kNew, kBinary, Takes::numbers, import_cumulative, "cumsum", "exclusive reverse",
        "axis known at import"},
    {"DFT", 17, 19, {1, 2}, Takes::floats, import_dft, "", "axis inverse onesided", "sizes known at import"},
    {"DFT", 20, kNew, {1, 3}, Takes::floats, import_dft, "", "inverse onesided", "sizes known at import"},
    {"DeformConv", 19, kNew, {3, 5}, Takes::floats, import_deform_conv, "",
        "dilations group kernel_shape offset_group pads strides", kStaticSizes},
    {"DepthToSpace", kOld, kNew, kUnary, Takes::moved, import_depth_to_space, "", "blocksize mode", kStaticSizes},
    {"DequantizeLinear", 10, kNew, {2, 3}, Takes::converted, import_dequantize, "", "axis block_size output_dtype"},
    {"Det", 11, kNew, kUnary, Takes::floats, import_det, "", "", "64 columns at most"},
    {"Div", kOld, 6, kBinary, Takes::numbers, apply_primitive_6, "div", kLegacyBroadcast},
    {"Div", 7, kNew, kBinary, Takes::numbers, apply_primitive, "div"},
    {"Dropout", kOld, 6, kUnary, Takes::floats, import_dropout_6, "", "is_test ratio"},
    {"Dropout", 7, 11, kUnary, Takes::floats, import_dropout_7, "", "ratio"},
    {"Dropout", 12, kNew, {1, 3}, Takes::floats, import_dropout_12, "", "seed"},
    {"DynamicQuantizeLSTM", 1, 1, {3, 12}, Takes::floats, import_dynamic_quantize_lstm, "",
        "activation_alpha activation_beta activations clip direction hidden_size input_forget",
        "length known at import, 512 steps at most without the host", kContrib,
        nullptr, nullptr, Control::recurrence},
    {"DynamicQuantizeLinear", 11, kNew, kUnary, Takes::floats, import_dynamic_quantize},
    {"DynamicQuantizeMatMul", 1, 1, {3, 5}, Takes::floats, import_dynamic_quantize_matmul, "", "", "", kContrib},
    {"Einsum", 12, kNew, kMany, Takes::numbers, import_einsum, "", "equation"},
    {"Elu", kOld, kNew, kUnary, Takes::floats, import_elu, "", "alpha"},
    {"EmbedLayerNormalization", 1, 1, {1, 9}, Takes::integers, import_embed_layer_normalization, "",
        "epsilon mask_index_type", "", kContrib},
    {"Equal", kOld, 6, kBinary, Takes::anything, apply_primitive_6, "eq", kLegacyBroadcast},
    {"Equal", 7, kNew, kBinary, Takes::anything, apply_primitive, "eq"},
    {"Erf", 9, kNew, kUnary, Takes::floats, apply_primitive, "erf"},
    {"Exp", kOld, kNew, kUnary, Takes::floats, apply_primitive, "exp"},
    {"Expand", 8, kNew, kBinary, Takes::moved, import_expand, "", "", "shape known at import"},
    {"EyeLike", 9, kNew, kUnary, Takes::anything, import_eye_like, "", "dtype k"},
    {"FastGelu", 1, 1, {1, 2}, Takes::floats, import_fast_gelu, "", "", "", kContrib},
    {"Flatten", 1, kNew, kUnary, Takes::moved, import_flatten, "", "axis"},
    {"FlexAttention", 1, 1, kTernary, Takes::floats, nullptr, "", "prob_mod scale score_mod softmax_precision", "",
        "ai.onnx.preview", nullptr, nullptr, Control::flex_attention},
    {"Floor", kOld, kNew, kUnary, Takes::floats, apply_primitive, "floor"},
    {"FusedConv", 1, 1, {2, 4}, Takes::floats, import_fused_conv, "",
        "activation activation_params auto_pad dilations group kernel_shape pads strides", kStaticSizes, kContrib},
    {"FusedGemm", 1, 1, {2, 3}, Takes::floats, import_fused_gemm, "",
        "activation activation_alpha activation_beta alpha beta transA transB", "", kContrib},
    {"FusedMatMul", 1, 1, kBinary, Takes::floats, import_fused_matmul, "", "alpha transA transB", "", kContrib},
    {"GRU", 7, kNew, {3, 6}, Takes::floats, import_gru, "", "activation_alpha activation_beta activations clip "
        "direction hidden_size layout linear_before_reset", kStepsAtOnce, kOnnxDomain, nullptr, nullptr,
        Control::recurrence},
    {"Gather", 1, kNew, kBinary, Takes::moved, import_gather, "", "axis", "size of the axis known at import"},
    {"GatherBlockQuantized", 1, 1, {3, 4}, Takes::converted, import_gather_block_quantized, "",
        "bits block_size gather_axis quantize_axis", "blocks along the last axis", kContrib},
    {"GatherElements", 11, kNew, kBinary, Takes::moved, import_gather_elements, "", "axis",
        "size of the axis known at import"},
    {"GatherND", 11, kNew, kBinary, Takes::moved, import_gather_nd, "", "batch_dims", kStaticSizes},
    {"Gelu", 1, 1, kUnary, Takes::floats, import_bias_gelu, "", "", "", kContrib},
    {"Gelu", 20, kNew, kUnary, Takes::floats, import_gelu, "", "approximate"},
    {"Gemm", kOld, kNew, {2, 3}, Takes::numbers, import_gemm, "", "alpha beta broadcast transA transB"},
    {"GlobalAveragePool", 1, kNew, kUnary, Takes::floats, import_global_pool, "reduce_mean"},
    {"GlobalLpPool", 2, kNew, kUnary, Takes::floats, import_global_lp_pool, "", "p"},
    {"GlobalMaxPool", 1, kNew, kUnary, Takes::floats, import_global_pool, "reduce_max"},
    {"Greater", kOld, 6, kBinary, Takes::numbers, apply_primitive_6, "gt", kLegacyBroadcast},
    {"Greater", 7, kNew, kBinary, Takes::numbers, apply_primitive, "gt"},
    {"GreaterOrEqual", 12, kNew, kBinary, Takes::numbers, apply_primitive, "ge"},
    {"GridSample", 16, kNew, kBinary, Takes::numbers, import_grid_sample, "", "align_corners mode padding_mode",
        kStaticSizes},
    {"GroupNorm", 1, 1, kTernary, Takes::floats, import_contrib_group_norm, "",
        "activation channels_last epsilon groups", "", kContrib},
    {"GroupNormalization", 18, kNew, kTernary, Takes::floats, import_group_normalization, "",
        "epsilon num_groups stash_type"},
    {"GroupQueryAttention", 1, 1, {1, 12}, Takes::floats, import_group_query_attention, "",
        "do_rotary kv_num_heads local_window_size num_heads rotary_interleaved scale smooth_softmax softcap",
        "sequences of one length once there is a past", kContrib},
    {"HammingWindow", 17, kNew, kUnary, Takes::integers, import_hamming_window, "", "output_datatype periodic",
        "size known at import"},
    {"HannWindow", 17, kNew, kUnary, Takes::integers, import_hann_window, "", "output_datatype periodic",
        "size known at import"},
    {"HardSigmoid", kOld, kNew, kUnary, Takes::floats, import_hard_sigmoid, "", "alpha beta"},
    {"HardSwish", 14, kNew, kUnary, Takes::floats, import_hard_swish},
    {"Hardmax", 1, kNew, kUnary, Takes::floats, import_hardmax, "", "axis"},
    {"Identity", 1, kNew, kUnary, Takes::moved, import_identity},
    {"If", 1, kNew, kUnary, Takes::booleans, nullptr, "", "else_branch then_branch", "condition known at import",
        kOnnxDomain, nullptr, nullptr, Control::branch},
    {"InstanceNormalization", kOld, kNew, kTernary, Takes::floats, import_instance_normalization, "", "epsilon"},
    {"IsInf", 10, kNew, kUnary, Takes::floats, import_is_inf, "", "detect_negative detect_positive"},
    {"IsNaN", 9, kNew, kUnary, Takes::floats, apply_primitive, "is_nan"},
    {"LRN", 1, kNew, kUnary, Takes::floats, import_lrn, "", "alpha beta bias size"},
    {"LSTM", 7, kNew, {3, 8}, Takes::floats, import_lstm, "",
        "activation_alpha activation_beta activations clip direction hidden_size input_forget layout",
        kStepsAtOnce, kOnnxDomain, nullptr, nullptr, Control::recurrence},
    {"LayerNormalization", 17, kNew, {2, 3}, Takes::floats, import_layer_normalization, "", "axis epsilon stash_type"},
    {"LeakyRelu", kOld, kNew, kUnary, Takes::floats, import_leaky_relu, "", "alpha"},
    {"Less", kOld, 6, kBinary, Takes::numbers, apply_primitive_6, "lt", kLegacyBroadcast},
    {"Less", 7, kNew, kBinary, Takes::numbers, apply_primitive, "lt"},
    {"LessOrEqual", 12, kNew, kBinary, Takes::numbers, apply_primitive, "le"},
    {"LinearAttention", 27, kNew, {3, 6}, Takes::floats, import_linear_attention, "",
        "chunk_size kv_num_heads q_num_heads scale update_rule", "with a gate or a delta 512 steps at most"},
    {"Log", kOld, kNew, kUnary, Takes::floats, apply_primitive, "log"},
    {"LogSoftmax", 1, kNew, kUnary, Takes::floats, import_log_softmax, "", "axis"},
    {"Loop", 1, kNew, {2, kVariadic}, Takes::anything, nullptr, "", "body",
        "trip count and conditions known at import, 1024 iterations at most", kOnnxDomain, nullptr, nullptr,
        Control::loop},
    {"LpNormalization", 1, kNew, kUnary, Takes::floats, import_lp_normalization, "", "axis p"},
    {"LpPool", 2, kNew, kUnary, Takes::floats, import_lp_pool, "",
        "auto_pad ceil_mode dilations kernel_shape pads strides p", kStaticSizes},
    {"MatMul", 1, kNew, kBinary, Takes::numbers, import_matmul},
    {"MatMulInteger", 10, kNew, {2, 4}, Takes::integers, import_matmul_integer},
    {"MatMulIntegerToFloat", 1, 1, {4, 7}, Takes::integers, import_matmul_integer_to_float, "", "", "", kContrib},
    {"MatMulNBits", 1, 1, {3, 6}, Takes::floats, import_matmul_n_bits, "", "K N accuracy_level bits block_size",
        "2, 3, 4 and 8 bits", kContrib},
    {"Max", kOld, kNew, kMany, Takes::numbers, import_variadic, "max"},
    {"MaxPool", kOld, kNew, kUnary, Takes::numbers, import_max_pool, "",
        "auto_pad ceil_mode dilations kernel_shape pads strides storage_order", kStaticSizes},
    {"MaxUnpool", 9, kNew, {2, 3}, Takes::floats, import_max_unpool, "", "kernel_shape pads strides",
        "output shape known at import"},
    {"Mean", kOld, kNew, kMany, Takes::floats, import_mean},
    {"MeanVarianceNormalization", 9, kNew, kUnary, Takes::floats, import_mean_variance_normalization, "", "axes"},
    {"MelWeightMatrix", 17, kNew, {5, 5}, Takes::integers, import_mel_weight_matrix, "", "output_datatype",
        "operands known at import"},
    {"Min", kOld, kNew, kMany, Takes::numbers, import_variadic, "min"},
    {"Mish", 18, kNew, kUnary, Takes::floats, import_mish},
    {"MoE", 1, 1, {3, 8}, Takes::floats, import_moe, "",
        "activation_alpha activation_beta activation_type k normalize_routing_weights swiglu_fusion swiglu_limit "
        "swiglu_limit_after_activation use_sparse_mixer", kStaticSizes, kContrib},
    {"Mod", 10, kNew, kBinary, Takes::numbers, import_mod, "", "fmod"},
    {"Momentum", 1, 1, {5, kVariadic}, Takes::floats, import_momentum, "", "alpha beta mode norm_coefficient", "",
        kTraining},
    {"Mul", kOld, 6, kBinary, Takes::numbers, apply_primitive_6, "mul", kLegacyBroadcast},
    {"Mul", 7, kNew, kBinary, Takes::numbers, apply_primitive, "mul"},
    {"MultiHeadAttention", 1, 1, {1, 8}, Takes::floats, import_multi_head_attention, "",
        "mask_filter_value num_heads scale unidirectional", "", kContrib},
    {"Multinomial", 7, kNew, kUnary, Takes::floats, import_multinomial, "", "dtype sample_size seed",
        "classes known at import"},
    {"Neg", kOld, kNew, kUnary, Takes::numbers, apply_primitive, "neg"},
    {"NegativeLogLikelihoodLoss", 12, kNew, {2, 3}, Takes::floats, import_negative_log_likelihood, "",
        "ignore_index reduction"},
    {"NhwcMaxPool", 1, 1, kUnary, Takes::numbers, import_nhwc_max_pool, "",
        "auto_pad ceil_mode dilations kernel_shape pads strides", kStaticSizes, kContrib},
    {"NonMaxSuppression", 10, kNew, {2, 5}, Takes::floats, nullptr, "", "center_point_box", kOnHost, kOnnxDomain,
        non_max_suppression, most_of_non_max_suppression},
    {"NonZero", 9, kNew, kUnary, Takes::anything, nullptr, "", "", kOnHost, kOnnxDomain, non_zero, most_of_non_zero},
    {"Not", 1, kNew, kUnary, Takes::booleans, apply_primitive, "not"},
    {"OneHot", 9, kNew, kTernary, Takes::numbers, import_one_hot, "", "axis", "depth known at import"},
    {"Optional", 15, kNew, {0, 1}, Takes::optional, import_optional, "", "type"},
    {"OptionalGetElement", 15, kNew, kUnary, Takes::optional, import_optional_get_element},
    {"OptionalHasElement", 15, kNew, {0, 1}, Takes::optional, import_optional_has_element},
    {"Or", kOld, 6, kBinary, Takes::booleans, apply_primitive_6, "or", kLegacyBroadcast},
    {"Or", 7, kNew, kBinary, Takes::booleans, apply_primitive, "or"},
    {"PRelu", kOld, 6, kBinary, Takes::floats, import_prelu_6},
    {"PRelu", 7, kNew, kBinary, Takes::numbers, import_prelu},
    {"Pad", kOld, 10, kUnary, Takes::anything, import_pad, "", "mode pads value"},
    {"Pad", 11, kNew, {2, 4}, Takes::anything, import_pad, "", "mode", "pads known at import"},
    {"PagedAttention", 1, 1, {1, 17}, Takes::floats, import_paged_attention, "",
        "do_rotary is_causal k_cache_dtype k_quant_type kv_cache_layout kv_num_heads local_window_size num_heads "
        "qk_norm_epsilon rotary_interleaved rotary_offset scale softcap v_cache_dtype v_head_size v_quant_type",
        "causal, caches that are not quantised, sizes but the number of tokens known at import", kContrib},
    {"Pow", kOld, 6, kBinary, Takes::numbers, import_pow_6, "", kLegacyBroadcast},
    {"Pow", 7, kNew, kBinary, Takes::numbers, import_pow},
    {"QGemm", 1, 1, {6, 9}, Takes::integers, import_qgemm, "", "alpha transA transB", "", kContrib},
    {"QLinearAdd", 1, 1, {1, 8}, Takes::integers, import_qlinear_binary, "add", "", "", kContrib},
    {"QLinearConcat", 1, 1, {5, kVariadic}, Takes::anything, import_qlinear_concat, "", "axis", "", kContrib},
    {"QLinearConv", 10, kNew, {8, 9}, Takes::integers, import_qlinear_conv, "",
        "auto_pad dilations group kernel_shape pads strides", kStaticSizes},
    {"QLinearGlobalAveragePool", 1, 1, {1, 5}, Takes::integers, import_qlinear_global_average_pool, "",
        "channels_last", "", kContrib},
    {"QLinearLeakyRelu", 1, 1, {1, 5}, Takes::integers, import_qlinear_leaky_relu, "", "alpha", "", kContrib},
    {"QLinearMatMul", 10, kNew, {8, 8}, Takes::integers, import_qlinear_matmul},
    {"QLinearMul", 1, 1, {1, 8}, Takes::integers, import_qlinear_binary, "mul", "", "", kContrib},
    {"QLinearSigmoid", 1, 1, {1, 5}, Takes::integers, import_qlinear_unary, "sigmoid", "", "", kContrib},
    {"QLinearSoftmax", 1, 1, {1, 5}, Takes::integers, import_qlinear_softmax, "", "axis opset", "", kContrib},
    {"QMoE", 1, 1, {3, 21}, Takes::floats, import_qmoe, "",
        "accuracy_level activation_alpha activation_beta activation_type block_size expert_weight_bits "
        "fc1_expert_weight_bits fc2_expert_weight_bits fc3_expert_weight_bits k normalize_routing_weights quant_type "
        "swiglu_fusion swiglu_limit swiglu_limit_after_activation use_sparse_mixer weights_prepacked",
        "integers of 2, 3, 4 and 8 bits, sizes known at import", kContrib},
    {"QuantizeLinear", 10, kNew, {2, 3}, Takes::converted, import_quantize, "",
        "axis block_size output_dtype precision saturate"},
    {"QuickGelu", 1, 1, kUnary, Takes::floats, import_quick_gelu, "", "alpha", "", kContrib},
    {"RMSNormalization", 23, kNew, kBinary, Takes::floats, import_rms_normalization, "", "axis epsilon stash_type"},
    {"RNN", 7, kNew, {3, 6}, Takes::floats, import_rnn, "", "activation_alpha activation_beta activations clip "
        "direction hidden_size layout", kStepsAtOnce, kOnnxDomain, nullptr, nullptr, Control::recurrence},
    {"RandomNormal", 1, kNew, {0, 0}, Takes::anything, import_random_normal, "", "dtype mean scale seed shape"},
    {"RandomNormalLike", 1, kNew, kUnary, Takes::anything, import_random_normal, "", "dtype mean scale seed"},
    {"RandomUniform", 1, kNew, {0, 0}, Takes::anything, import_random_uniform, "", "dtype high low seed shape"},
    {"RandomUniformLike", 1, kNew, kUnary, Takes::anything, import_random_uniform, "", "dtype high low seed"},
    {"Range", 11, 26, kTernary, Takes::numbers, import_range, "", "", "operands known at import"},
    {"Range", 27, kNew, kTernary, Takes::numbers, import_range, "", "stash_type", "operands known at import"},
    {"Reciprocal", kOld, kNew, kUnary, Takes::floats, apply_primitive, "reciprocal"},
    {"ReduceL1", 1, 17, kUnary, Takes::numbers, import_reduce_l1, "", "axes keepdims"},
    {"ReduceL1", 18, kNew, {1, 2}, Takes::numbers, import_reduce_l1, "", "keepdims noop_with_empty_axes",
        "axes known at import"},
    {"ReduceL2", 1, 17, kUnary, Takes::numbers, import_reduce_l2, "", "axes keepdims"},
    {"ReduceL2", 18, kNew, {1, 2}, Takes::numbers, import_reduce_l2, "", "keepdims noop_with_empty_axes",
        "axes known at import"},
    {"ReduceLogSum", 1, 17, kUnary, Takes::numbers, import_reduce_log_sum, "", "axes keepdims"},
    {"ReduceLogSum", 18, kNew, {1, 2}, Takes::numbers, import_reduce_log_sum, "", "keepdims noop_with_empty_axes",
        "axes known at import"},
    {"ReduceLogSumExp", 1, 17, kUnary, Takes::numbers, import_reduce_log_sum_exp, "", "axes keepdims"},
    {"ReduceLogSumExp", 18, kNew, {1, 2}, Takes::numbers, import_reduce_log_sum_exp, "",
        "keepdims noop_with_empty_axes", "axes known at import"},
    {"ReduceMax", 1, 17, kUnary, Takes::anything, import_reduce_extreme, "reduce_max", "axes keepdims"},
    {"ReduceMax", 18, kNew, {1, 2}, Takes::anything, import_reduce_extreme, "reduce_max",
        "keepdims noop_with_empty_axes", "axes known at import"},
    {"ReduceMean", 1, 17, kUnary, Takes::numbers, import_reduce_mean, "", "axes keepdims"},
    {"ReduceMean", 18, kNew, {1, 2}, Takes::numbers, import_reduce_mean, "", "keepdims noop_with_empty_axes",
        "axes known at import"},
    {"ReduceMin", 1, 17, kUnary, Takes::anything, import_reduce_extreme, "reduce_min", "axes keepdims"},
    {"ReduceMin", 18, kNew, {1, 2}, Takes::anything, import_reduce_extreme, "reduce_min",
        "keepdims noop_with_empty_axes", "axes known at import"},
    {"ReduceProd", 1, 17, kUnary, Takes::numbers, import_reduce, "reduce_prod", "axes keepdims"},
    {"ReduceProd", 18, kNew, {1, 2}, Takes::numbers, import_reduce, "reduce_prod", "keepdims noop_with_empty_axes",
        "axes known at import"},
    {"ReduceSum", 1, 12, kUnary, Takes::numbers, import_reduce, "reduce_sum", "axes keepdims"},
    {"ReduceSum", 13, kNew, {1, 2}, Takes::numbers, import_reduce, "reduce_sum", "keepdims noop_with_empty_axes",
        "axes known at import"},
    {"ReduceSumSquare", 1, 17, kUnary, Takes::numbers, import_reduce_sum_square, "", "axes keepdims"},
    {"ReduceSumSquare", 18, kNew, {1, 2}, Takes::numbers, import_reduce_sum_square, "",
        "keepdims noop_with_empty_axes", "axes known at import"},
    {"Relu", kOld, kNew, kUnary, Takes::numbers, apply_primitive, "relu"},
    {"Reshape", kOld, kNew, kBinary, Takes::moved, import_reshape, "", "allowzero", "shape known at import"},
    {"Resize", 10, 10, kBinary, Takes::numbers, import_upsample, "", "mode", "scales known at import"},
    {"Resize", 11, kNew, {1, 4}, Takes::numbers, import_resize, "",
        "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
        "keep_aspect_ratio_policy mode nearest_mode", "scales or sizes known at import"},
    {"ReverseSequence", 10, kNew, kBinary, Takes::moved, import_reverse_sequence, "", "batch_axis time_axis"},
    {"RoiAlign", 10, kNew, kTernary, Takes::floats, import_roi_align, "",
        "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale",
        "sizes of the images known at import; without a sampling ratio regions no larger than they"},
    {"RotaryEmbedding", 1, 1, {4, 4}, Takes::floats, import_contrib_rotary_embedding, "",
        "interleaved is_packed_batching num_heads rotary_embedding_dim scale", "scale 1", kContrib},
    {"RotaryEmbedding", 23, kNew, {3, 4}, Takes::floats, import_rotary_embedding, "",
        "interleaved num_heads rotary_embedding_dim"},
    {"Round", 11, kNew, kUnary, Takes::floats, apply_primitive, "round"},
    {"STFT", 17, kNew, {2, 4}, Takes::floats, import_stft, "", "onesided", kStaticSizes},
    {"Scan", 8, 8, {2, kVariadic}, Takes::anything, nullptr, "", "body directions num_scan_inputs",
        "sizes known at import, 1024 iterations at most", kOnnxDomain, nullptr, nullptr, Control::scan},
    {"Scan", 9, kNew, kMany, Takes::anything, nullptr, "", "body num_scan_inputs scan_input_axes "
        "scan_input_directions scan_output_axes scan_output_directions",
        "sizes known at import, 1024 iterations at most", kOnnxDomain, nullptr, nullptr, Control::scan},
    {"Scatter", 9, 10, kTernary, Takes::anything, import_scatter_elements, "", "axis", kStaticSizes},
    {"ScatterElements", 11, kNew, kTernary, Takes::anything, import_scatter_elements, "", "axis reduction",
        kStaticSizes},
    {"ScatterND", 11, kNew, kTernary, Takes::anything, import_scatter_nd, "", "reduction", kStaticSizes},
    {"Selu", kOld, kNew, kUnary, Takes::floats, import_selu, "", "alpha gamma"},
    {"SequenceAt", 11, kNew, kBinary, Takes::sequences, import_sequence_at, "", "", "position known at import"},
    {"SequenceConstruct", 11, kNew, kMany, Takes::anything, import_sequence_construct},
    {"SequenceEmpty", 11, kNew, {0, 0}, Takes::anything, import_sequence_empty, "", "dtype"},
    {"SequenceErase", 11, kNew, {1, 2}, Takes::sequences, import_sequence_erase, "", "", "position known at import"},
    {"SequenceInsert", 11, kNew, {2, 3}, Takes::sequences, import_sequence_insert, "", "", "position known at import"},
    {"SequenceLength", 11, kNew, kUnary, Takes::sequences, import_sequence_length},
    {"Shape", 1, kNew, kUnary, Takes::converted, import_shape, "", "end start", "sizes known at import"},
    {"Shrink", 9, kNew, kUnary, Takes::numbers, import_shrink, "", "bias lambd"},
    {"Sigmoid", kOld, kNew, kUnary, Takes::floats, apply_primitive, "sigmoid"},
    {"Sign", 9, kNew, kUnary, Takes::numbers, apply_primitive, "sign"},
    {"SimplifiedLayerNormalization", 1, kNew, kBinary, Takes::floats, import_rms_normalization, "",
        "axis epsilon stash_type"},
    {"Sin", 7, kNew, kUnary, Takes::floats, apply_primitive, "sin"},
    {"Sinh", 9, kNew, kUnary, Takes::floats, apply_primitive, "sinh"},
    {"Size", 1, kNew, kUnary, Takes::converted, import_size, "", "", "sizes known at import"},
    {"SkipLayerNormalization", 1, 1, {3, 5}, Takes::floats, import_skip_layer_normalization, "", "epsilon", "",
        kContrib},
    {"SkipSimplifiedLayerNormalization", 1, 1, {3, 4}, Takes::floats, import_skip_rms_normalization, "", "epsilon", "",
        kContrib},
    {"Slice", 1, 9, kUnary, Takes::moved, import_slice, "", "axes ends starts"},
    {"Slice", 10, kNew, {3, 5}, Takes::moved, import_slice, "", "", "bounds known at import"},
    {"Softmax", 1, kNew, kUnary, Takes::floats, import_softmax, "", "axis"},
    {"SoftmaxCrossEntropyLoss", 12, kNew, {2, 3}, Takes::floats, import_softmax_cross_entropy, "",
        "ignore_index reduction"},
    {"Softplus", 1, kNew, kUnary, Takes::floats, import_softplus},
    {"Softsign", 1, kNew, kUnary, Takes::floats, import_softsign},
    {"SpaceToDepth", kOld, 27, kUnary, Takes::moved, import_space_to_depth, "", "blocksize", kStaticSizes},
    {"SpaceToDepth", 28, kNew, kUnary, Takes::moved, import_space_to_depth, "", "blocksize mode", kStaticSizes},
    {"Split", 2, 12, kUnary, Takes::moved, import_split, "", "axis split", "size of the axis known at import"},
    {"Split", 13, kNew, {1, 2}, Takes::moved, import_split, "", "axis num_outputs", "sizes known at import"},
    {"SplitToSequence", 11, kNew, {1, 2}, Takes::anything, import_split_to_sequence, "", "axis keepdims",
        "sizes known at import"},
    {"Sqrt", kOld, kNew, kUnary, Takes::floats, apply_primitive, "sqrt"},
    {"Squeeze", 1, 12, kUnary, Takes::moved, import_squeeze, "", "axes"},
    {"Squeeze", 13, kNew, {1, 2}, Takes::moved, import_squeeze, "", "", "axes known at import"},
    {"Sub", kOld, 6, kBinary, Takes::numbers, apply_primitive_6, "sub", kLegacyBroadcast},
    {"Sub", 7, kNew, kBinary, Takes::numbers, apply_primitive, "sub"},
    {"Sum", kOld, kNew, kMany, Takes::numbers, import_variadic, "add"},
    {"SwiGLU", 28, kNew, kBinary, Takes::floats, import_swiglu, "", "alpha"},
    {"Swish", 24, kNew, kUnary, Takes::floats, import_swish, "", "alpha"},
    {"Tan", 7, kNew, kUnary, Takes::floats, apply_primitive, "tan"},
    {"Tanh", kOld, kNew, kUnary, Takes::floats, apply_primitive, "tanh"},
    {"TensorScatter", 24, kNew, {2, 3}, Takes::anything, import_tensor_scatter, "", "axis mode", kStaticSizes},
    {"TfIdfVectorizer", 9, kNew, kUnary, Takes::integers, nullptr, "",
        "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s pool_strings "
        "weights", kOnHost, kOnnxDomain, tf_idf_vectorizer, most_of_tf_idf_vectorizer},
    {"ThresholdedRelu", 10, kNew, kUnary, Takes::floats, import_thresholded_relu, "", "alpha"},
    {"Tile", kOld, kNew, kBinary, Takes::moved, import_tile, "", "", "repeats known at import"},
    {"TopK", 1, 9, kUnary, Takes::numbers, import_top_k, "", "axis k"},
    {"TopK", 10, kNew, kBinary, Takes::numbers, import_top_k, "", "axis largest sorted", "count known at import"},
    {"Transpose", 1, kNew, kUnary, Takes::moved, import_transpose, "", "perm"},
    {"Trilu", 14, kNew, {1, 2}, Takes::anything, import_trilu, "", "upper"},
    {"Unique", 11, kNew, kUnary, Takes::anything, nullptr, "", "axis sorted", kOnHost, kOnnxDomain, unique,
        most_of_unique},
    {"Unsqueeze", 1, 12, kUnary, Takes::moved, import_unsqueeze, "", "axes"},
    {"Unsqueeze", 13, kNew, kBinary, Takes::moved, import_unsqueeze, "", "", "axes known at import"},
    {"Upsample", 7, 8, kUnary, Takes::numbers, import_upsample, "", "mode scales"},
    {"Upsample", 9, 9, kBinary, Takes::numbers, import_upsample, "", "mode", "scales known at import"},
    {"Where", 9, kNew, kTernary, Takes::booleans, import_where},
    {"Xor", kOld, 6, kBinary, Takes::booleans, apply_primitive_6, "xor", kLegacyBroadcast},
    {"Xor", 7, kNew, kBinary, Takes::booleans, apply_primitive, "xor"},
};
// clang-format on

std::string opset_text(const OperatorRow& row) {
  if (row.until == kNewestOpset) return fmt::format("{}+", row.since);
  return row.until == row.since ? fmt::format("{}", row.since) : fmt::format("{} to {}", row.since, row.until);
}

std::span<const OperatorRow> rows_of(std::string_view name) {
  const OperatorRow* first = std::ranges::lower_bound(kRows, name, {}, &OperatorRow::name);
  return {first, std::ranges::upper_bound(first, std::end(kRows), name, {}, &OperatorRow::name)};
}

constexpr std::string_view kPageHead = R"(# ONNX operators

What `load_onnx` imports. Written by `operator_table_markdown()`; a test compares this file with it.

Opsets up to {} are known; a newer model is read as one of that opset, with a note (`OnnxModel::notes`). *First
operand* is what dtypes it may have. Strings, complex numbers and sparse tensors are not supported. Sequences and
optionals are, inside a model, where their lengths are known at import. Model-local functions are inlined; so are the
branch of an If that its condition takes, and the iterations of Loop and Scan. An If whose condition is data computes
both branches and selects, where their results agree in shape; elsewhere the host decides.

*Narrow* are floats of 8, 6 and 4 bits and integers of 4 and 2, for which vkfuse has no dtype. Inputs and outputs hold
each element in a byte: `i8` or `u8` with the integer, `u8` with the bits of the float (`OnnxProgram::narrow_type`
names them; the Python package gives and takes arrays of ml_dtypes). Operators that move elements take them; Cast,
CastLike, QuantizeLinear and DequantizeLinear convert them, by integer arithmetic in the kernel that reads them. From
f64 they are rounded twice, by way of f32.

Random operators draw from a counter (Philox) that attribute `seed` starts: a program gives the same numbers in every
run, and on every device. Without a seed the name of the node starts it.

*Known at import* is what is a constant, is given as one, or is computed from such and from sizes. Sizes that are
symbols are known as symbols where they are copied, picked, put together, and multiplied, divided or compared so that
a number or one symbol comes of it: shapes that exporters write for dynamic axes stay symbolic, and one program serves
all sizes. Where more is asked of a symbol, `load_onnx` says so, and `compile_onnx` (the command, too) compiles the
model for the sizes of each run. A table that is cut to a symbolic length (positions) bounds the symbol, and a run
beyond it is refused.

An input whose value decides a shape, a condition or a count is known at import where its value is given
(`OnnxOptions::input_values`, `vkfuse run --input`, the data of a test case) and it is a parameter: integers,
booleans, and floats that are one number or are read as they are. It becomes a constant of the program.
`OnnxOptions::known_inputs` and `--known` make a constant of any input; `compile_onnx` compiles the model for the
values of each run. What ONNX Runtime ignores in a file is ignored, with a note (`OnnxModel::notes`): wrong shapes of
outputs, nodes that are not sorted, negative sizes, one name for dimensions of two sizes.

Operators *on the host* have results whose shapes depend on data. `compile_onnx` cuts the model there: the kernels
before run, the host reads the operands and computes, and what follows is compiled for the sizes that came of it, and
kept for the next run with them. Values that only later kernels need stay on the device. `vkfuse plan` shows each such
step as `host`, with the bytes that cross and the time that takes. `load_onnx`, and the command with `--no-host`,
refuse them unless their operands are known at import.

*Values that kernels compute* may decide what follows: the condition of an If or a Loop, a count, a bound, a shape.
`compile_onnx` cuts the model there, too (`host read`): the host reads the value, if it has up to 1,024 elements, and
what follows is compiled with it, and kept for the last sixteen values. A Loop whose condition is data has a part for
each iteration, up to 1,024. `vkfuse plan` ends at such a step, as only a run knows what follows.

*Recurrences* (RNN, GRU, LSTM) of up to 64 steps are nodes of one graph. `compile_onnx` runs longer ones in rounds:
kernels for 32 steps, again and again, with the states between them, so that a sequence may have any length and
planning takes as long for each. `vkfuse plan` shows them as a step of the host. `load_onnx` unrolls up to 512 steps.

| operator | opset | first operand | attributes | taken |
| --- | --- | --- | --- | --- |
)";

constexpr std::string_view kPageTail = R"(
## ONNX's node cases

`python -m onnx.backend.test.cmd_tools generate-data -o DIR` writes the cases that the `onnx` package states for its
operators; `vkfuse validate DIR/node` runs them. Of the 1,884 of version 1.23, 1,816 pass on lavapipe (20 of them are
computed on import), none fails, and 68 are skipped:

| cases | reason |
| --- | --- |
| 26 | strings |
| 29 | sequences (22) and optionals (7) as inputs or outputs of a model |
| 9 | ImageDecoder |
| 4 | ArrayFeatureExtractor, Binarizer and TreeEnsemble of ai.onnx.ml |

On SwiftShader, which has no f64, 1,752 pass, and none is wrong (`python/tests/node_cases.py vkfuse`).
)";

}  // namespace

std::span<const OperatorRow> operator_table() { return kRows; }

const OperatorRow* find_operator(std::string_view domain, std::string_view name, std::int64_t opset) {
  const std::int64_t known = domain == kOnnxDomain ? std::min(opset, kNewestOpset) : opset;
  for (const OperatorRow& row : rows_of(name)) {
    if (row.domain == domain && row.since <= known && known <= row.until) return &row;
  }
  return nullptr;
}

std::string opsets_of(std::string_view domain, std::string_view name) {
  std::string text;
  for (const OperatorRow& row : rows_of(name)) {
    if (row.domain == domain) text += (text.empty() ? "" : " and ") + opset_text(row);
  }
  return text;
}

bool takes(Takes set, DType dtype) {
  switch (set) {
    case Takes::anything: return true;
    case Takes::floats: return is_float(dtype);
    case Takes::numbers: return dtype != DType::boolean;
    case Takes::integers: return is_integer(dtype);
    case Takes::unsigned_integers: return is_integer(dtype) && !is_signed_integer(dtype);
    case Takes::booleans: return dtype == DType::boolean;
    case Takes::sequences: return false;
    case Takes::optional:
    case Takes::moved:
    case Takes::converted: return true;
  }
  return false;
}

std::string_view name_of(Takes set) {
  constexpr std::string_view names[] = {"anything", "floats",    "numbers",   "integers",         "unsigned integers",
                                        "bool",     "sequences", "optionals", "anything, narrow", "anything, narrow"};
  return names[static_cast<int>(set)];
}

std::string operator_table_markdown() {
  std::string text = fmt::format(kPageHead, kNewestOpset);
  for (const OperatorRow& row : kRows) {
    const std::string domain = row.domain == kOnnxDomain ? "" : fmt::format(" ({})", row.domain);
    text += fmt::format("| {}{} | {} | {} | {} | {} |\n", row.name, domain, opset_text(row), name_of(row.takes),
                        row.attributes.empty() ? "none" : row.attributes, row.note.empty() ? "all" : row.note);
  }
  text += kPageTail;
  return text;
}

}  // namespace vkfuse::onnx
