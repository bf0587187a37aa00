#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "attention with a bias and a mask": mul, dot, add, select, reduce_max, reshape, sub, exp, ... 12 ops in all
// 64 rows per workgroup, 16 of a subgroup of 32; 64 positions of the softmax at a time, in products of 16 x 16 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_mask;  // %0 : bool[2, 1, 256, 256]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_q;  // %1 : f16[2, 4, 256, 64]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_k;  // %4 : f16[2, 4, 256, 64]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uint w[]; } in_bias;  // %6 : f16[4, 256, 256]
layout(set = 0, binding = 4) readonly buffer Buffer4 { uvec4 w[]; } in_v;  // %17 : f16[2, 4, 256, 64]
layout(set = 0, binding = 5) writeonly buffer Buffer5 { uvec2 w[]; } out_y;  // %18 : f16[2, 4, 256, 64]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

// Within 2.5 ulp, as Vulkan promises for divisors up to 2^126: a larger one is scaled down first.
float f32_div(float x, float y) {
  float scale = f32_magnitude_bits(y) >= 0x7e800000u ? 0.0625 : 1.0;
  precise float quotient = x / (y * scale) * scale;
  return quotient;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

uvec4 u8x4_values(uint word) {
  return (uvec4(word) >> uvec4(0u, 8u, 16u, 24u)) & 0xffu;
}

bvec4 boolx4_values(uint word) {
  return notEqual(u8x4_values(word), uvec4(0u));
}

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uvec4 tiles[1600];  // of the first operand, then of the others, then of the results

// One element of an operand.
void v3_factor_element(float in_q_e, out float tile_operand) {
  precise float v3 = in_q_e * 0.125;
  tile_operand = v3;
}

// The score at one position.
void score_element(float v5_v, bool in_mask_e, float in_bias_e, out float score_result) {
  precise float v7 = v5_v + in_bias_e;
  precise float v9 = in_mask_e ? v7 : (-10000.0);
  score_result = v9;
}

// One element of the results.
void result_element(float v10, float v14, float out_y_v, out float out_y_result) {
  precise float v16 = f32_div(out_y_v, v14);
  out_y_result = v16;
}

// What matrices are taken through: `row` and `column` are those of a fragment.
// A NaN may get lost here: its exponential is NaN, too, and so is the row's sum.
float larger(const in float a, const in float b) {
  return max(a, b);
}

float added(const in float a, const in float b) {
  return a + b;
}

float larger_of(const in uint row, const in uint column, const in float a, const in float b) {
  return max(a, b);
}

// A row without a score above -infinity so far has nothing to be compared with.
float base_of(const in uint row, const in uint column, const in float top) {
  return top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
}

float power_of(const in uint row, const in uint column, const in float score, const in float base) {
  precise float fallen = score - base;
  return f32_exp(fallen);
}

float in_mask_e_beside_at(const in uint row, const in uint column, const in float before, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = first_m + row;
  uint chunk = first_k + column;
  uint q = batch / 4u;
  uint in_mask_i = m * 256u + chunk + q * 65536u;
  bool in_mask_e = boolx4_values(in_mask.w[in_mask_i >> 2] >> ((in_mask_i & 3u) * 8u))[0];
  return float(in_mask_e);
}

float score_at(const in uint row, const in uint column, const in float product, const in float in_mask_e, const in float in_bias_e, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = first_m + row;
  uint chunk = first_k + column;
  float score;
  score_element(product, in_mask_e != 0.0, in_bias_e, score);
  return score;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 4u;
  uint tile_m = workgroup % 4u;
  uint subgroup = gl_SubgroupID;
  uint first_m = tile_m * 64u + subgroup * 16u;
  for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 8u;
    uint column = unit % 8u;
    uint m = tile_m * 64u + row;
    uint chunk = column;
    uvec4 in_q_e_w0 = in_q.w[batch * 2048u + m * 8u + chunk];
    vec4 in_q_e_0 = vec4(f16x2_values_native(in_q_e_w0.x), f16x2_values_native(in_q_e_w0.y));
    vec4 factor_0;
    v3_factor_element(in_q_e_0[0], factor_0[0]);
    v3_factor_element(in_q_e_0[1], factor_0[1]);
    v3_factor_element(in_q_e_0[2], factor_0[2]);
    v3_factor_element(in_q_e_0[3], factor_0[3]);
    vec4 in_q_e_1 = vec4(f16x2_values_native(in_q_e_w0.z), f16x2_values_native(in_q_e_w0.w));
    vec4 factor_1;
    v3_factor_element(in_q_e_1[0], factor_1[0]);
    v3_factor_element(in_q_e_1[1], factor_1[1]);
    v3_factor_element(in_q_e_1[2], factor_1[2]);
    v3_factor_element(in_q_e_1[3], factor_1[3]);
    tiles[row * 9u + column] = uvec4(f16x2_bits_native(factor_0.xy), f16x2_bits_native(factor_0.zw), f16x2_bits_native(factor_1.xy), f16x2_bits_native(factor_1.zw));
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> v3_factor[4];
  [[unroll]] for (uint d = 0u; d < 4u; ++d) coopMatLoad(v3_factor[d], tiles, (subgroup * 16u) * 9u + d * 16u / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> most = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(uintBitsToFloat(0xff800000u));
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> total = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);  // of every column of a fragment
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  uint next = 0u;
  uvec4 in_k_e_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 8u;
    uint column = unit % 8u;
    uint k = next * 64u + row;
    uint chunk = column;
    in_k_e_w0[u] = in_k.w[batch * 2048u + k * 8u + chunk];
  }
  uvec4 in_v_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit % 8u;
    uint column = unit / 8u;
    uint chunk = row;
    uint k = next * 64u + column;
    in_v_w0[u] = in_v.w[batch * 2048u + chunk + k * 8u];
  }
  // The products of a block are found while scores of the one before it become weights.
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 8u;
    uint column = unit % 8u;
    uint k = next * 64u + row;
    uint chunk = column;
    tiles[row * 9u + column] = in_k_e_w0[u];
  }
  barrier();
  next = min(next + 1u, 4u - 1u);
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 8u;
    uint column = unit % 8u;
    uint k = next * 64u + row;
    uint chunk = column;
    in_k_e_w0[u] = in_k.w[batch * 2048u + k * 8u + chunk];
  }
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> scores[4];
  [[unroll]] for (uint j = 0u; j < 4u; ++j) scores[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  [[unroll]] for (uint d = 0u; d < 4u; ++d) {
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> second;
      coopMatLoad(second, tiles, (j * 16u) * 9u + d * 16u / 8u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
      scores[j] = coopMatMulAdd(v3_factor[d], second, scores[j]);
    }
  }
  barrier();
  for (uint block = 0u; block < 4u; ++block) {
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> in_mask_e_beside[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(in_mask_e_beside[j], most, in_mask_e_beside_at, batch, first_m, block * 64u + j * 16u);
    }
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> in_bias_e_beside[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      uint m = first_m;
      uint chunk = block * 64u + j * 16u;
      uint q = chunk / 2u;
      uint r = batch % 4u;
      coopMatLoad(in_bias_e_beside[j], in_bias.w, m * 128u + q + r * 32768u, 128u, gl_CooperativeMatrixLayoutRowMajor);
    }
    uint prefetched = min(block + 1u, 4u - 1u);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 8u;
      uint column = unit % 8u;
      uint k = prefetched * 64u + row;
      uint chunk = column;
      tiles[row * 9u + column] = in_k_e_w0[u];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit % 8u;
      uint column = unit / 8u;
      uint chunk = row;
      uint k = block * 64u + column;
      tiles[576u + column * 9u + row] = in_v_w0[u];
    }
    barrier();
    // The next block is on its way while this one is worked on.
    next = min(prefetched + 1u, 4u - 1u);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 8u;
      uint column = unit % 8u;
      uint k = next * 64u + row;
      uint chunk = column;
      in_k_e_w0[u] = in_k.w[batch * 2048u + k * 8u + chunk];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit % 8u;
      uint column = unit / 8u;
      uint chunk = row;
      uint k = prefetched * 64u + column;
      in_v_w0[u] = in_v.w[batch * 2048u + chunk + k * 8u];
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> coming_scores[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) coming_scores[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint d = 0u; d < 4u; ++d) {
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> second;
        coopMatLoad(second, tiles, (j * 16u) * 9u + d * 16u / 8u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
        coming_scores[j] = coopMatMulAdd(v3_factor[d], second, coming_scores[j]);
      }
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> highest = most;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(scores[j], scores[j], score_at, in_mask_e_beside[j], coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(in_bias_e_beside[j]), batch, first_m, block * 64u + j * 16u);
      coopMatPerElementNV(highest, highest, larger_of, scores[j]);
    }
    coopMatReduceNV(highest, highest, gl_CooperativeMatrixReduceRowNV, larger);
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> base;
    coopMatPerElementNV(base, highest, base_of);
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> fallen;
    coopMatPerElementNV(fallen, most, power_of, base);
    most = highest;
    total = total * fallen;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) sums[i] = sums[i] * fallen;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(scores[j], scores[j], power_of, base);
      total = total + scores[j];
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weights = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(scores[j]);
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> third;
        coopMatLoad(third, tiles, 576u + (j * 16u) * 9u + (i * 16u) / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        sums[i] = coopMatMulAdd(weights, third, sums[i]);
      }
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j) scores[j] = coming_scores[j];
    barrier();
  }
  uint own = subgroup * 400u;
  coopMatReduceNV(total, total, gl_CooperativeMatrixReduceRowNV, added);
  coopMatStore(most, tiles, own, 4u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(total, tiles, own + 64u, 4u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(sums[0u], tiles, own + 128u, 17u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(sums[1u], tiles, own + 132u, 17u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(sums[2u], tiles, own + 136u, 17u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(sums[3u], tiles, own + 140u, 17u, gl_CooperativeMatrixLayoutRowMajor);
  controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  for (uint g = gl_SubgroupInvocationID; g < 256u; g += 32u) {
    uint row = g / 16u;
    uint column = g % 16u;
    uint m = first_m + row;
    uint chunk = column;
    float top = uintBitsToFloat(tiles[own + row * 4u].x);
    float whole = uintBitsToFloat(tiles[own + 64u + row * 4u].x);
    // An infinite or undefined maximum leaves no number.
    if (f32_magnitude_bits(top) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);
    vec4 four = uintBitsToFloat(tiles[own + 128u + row * 17u + column]);
    vec4 out_y_0;
    result_element(top, whole, four.x, out_y_0[0]);
    result_element(top, whole, four.y, out_y_0[1]);
    result_element(top, whole, four.z, out_y_0[2]);
    result_element(top, whole, four.w, out_y_0[3]);
    out_y.w[batch * 4096u + m * 16u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
  }
  controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}
