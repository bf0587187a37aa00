#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "the gradients of keys and of values": iota, iota, sub, le, dot, dot, select, select, ... 25 ops in all
// 64 rows per workgroup, 16 of a subgroup of 32; 64 positions of the sum at a time, in products of 16 x 16 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_q;  // %5 : f16[4, 8, 700, 64]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_k;  // %6 : f16[4, 8, 700, 64]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_largest;  // %14 : f32[4, 8, 700, 1]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uint w[]; } in_log_total;  // %17 : f32[4, 8, 700, 1]
layout(set = 0, binding = 4) readonly buffer Buffer4 { uvec4 w[]; } in_cotangent;  // %22 : f16[4, 8, 700, 64]
layout(set = 0, binding = 5) readonly buffer Buffer5 { uvec4 w[]; } in_v;  // %23 : f16[4, 8, 700, 64]
layout(set = 0, binding = 6) readonly buffer Buffer6 { uint w[]; } in_subtracted;  // %26 : f32[4, 8, 700, 1]
layout(set = 0, binding = 7) writeonly buffer Buffer7 { uvec2 w[]; } out_of_k;  // %32 : f16[4, 8, 700, 64]
layout(set = 0, binding = 8) writeonly buffer Buffer8 { uvec2 w[]; } out_of_v_v34;  // %34 : f16[4, 8, 700, 64]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uvec4 tiles[1152];  // of the first operand, then of the others, then of the results

// The weight at one position.
void weight_0_element(uint chunk, int v0, float v7_v, float in_largest_e, float in_log_total_e, out float score_result) {
  int v1 = int(chunk);
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v10 = v4 ? v7_v : uintBitsToFloat(0xff800000u);
  precise float v12 = v10;
  precise float v15 = v12 - in_largest_e;
  precise float v18 = v15 - in_log_total_e;
  precise float v20 = f32_exp(v18);
  precise float v33 = v20;
  score_result = v33;
}

// The weight at one position.
void weight_1_element(uint chunk, int v0, float v24_v, float v20, float in_subtracted_e, out float score_result) {
  int v1 = int(chunk);
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v25 = v24_v;
  precise float v27 = v25 - in_subtracted_e;
  precise float v28 = v20 * v27;
  precise float v29 = v28;
  precise float v31 = v4 ? v29 : 0.0;
  score_result = v31;
}

// One element of the results.
void result_element(float out_of_v_v34_v, float out_of_k_v, out float out_of_k_result, out float out_of_v_v34_result) {
  out_of_k_result = out_of_k_v;
  out_of_v_v34_result = out_of_v_v34_v;
}

// What matrices are taken through: `row` and `column` are those of a fragment.
float in_largest_e_beside_at(const in uint row, const in uint column, const in float before, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  float in_largest_e = uintBitsToFloat(in_largest.w[batch * 700u + chunk]);
  return float(in_largest_e);
}

float in_log_total_e_beside_at(const in uint row, const in uint column, const in float before, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  float in_log_total_e = uintBitsToFloat(in_log_total.w[batch * 700u + chunk]);
  return float(in_log_total_e);
}

float in_subtracted_e_beside_at(const in uint row, const in uint column, const in float before, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  uint in_subtracted_e_w0 = in_subtracted.w[batch * 700u + chunk];
  float in_subtracted_e_0 = uintBitsToFloat(in_subtracted_e_w0);
  return float(in_subtracted_e_0);
}

float weight_0_at(const in uint row, const in uint column, const in float product, const in float in_largest_e, const in float in_log_total_e, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  int v0 = int(m);
  float score;
  weight_0_element(chunk, v0, product, in_largest_e, in_log_total_e, score);
  return first_k + column >= 700u ? 0.0 : score;
}

float weight_1_at(const in uint row, const in uint column, const in float other_product, const in float v20, const in float in_subtracted_e, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  int v0 = int(m);
  float score;
  weight_1_element(chunk, v0, other_product, v20, in_subtracted_e, score);
  return first_k + column >= 700u ? 0.0 : score;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 11u;
  uint tile_m = workgroup % 11u;
  uint subgroup = gl_SubgroupID;
  uint first_m = tile_m * 64u + subgroup * 16u;
  for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 8u;
    uint column = unit % 8u;
    uint m = min(tile_m * 64u + row, 700u - 1u);
    uint chunk = column;
    uvec4 in_k_e_w0 = in_k.w[batch * 5600u + m * 8u + chunk];
    tiles[row * 9u + column] = in_k_e_w0;
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_k_e_factor[4];
  [[unroll]] for (uint d = 0u; d < 4u; ++d) coopMatLoad(in_k_e_factor[d], tiles, (subgroup * 16u) * 9u + d * 16u / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 8u;
    uint column = unit % 8u;
    uint m = min(tile_m * 64u + row, 700u - 1u);
    uint chunk = column;
    uvec4 in_v_e_w0 = in_v.w[batch * 5600u + m * 8u + chunk];
    tiles[row * 9u + column] = in_v_e_w0;
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_v_e_factor[4];
  [[unroll]] for (uint d = 0u; d < 4u; ++d) coopMatLoad(in_v_e_factor[d], tiles, (subgroup * 16u) * 9u + d * 16u / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums_0[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) sums_0[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums_1[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) sums_1[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  // Blocks in which the mask leaves some row something.
  int lowest = int(tile_m * 64u);
  int highest = min(lowest + 63, int(700u) - 1);
  int last = int(700u) - 1;
  int first = 0;
  first = max(first, lowest);
  uint end = uint(max(last, -1) + 64) / 64u;
  uint begin = uint(first) / 64u;
  uint next = min(begin, 11u - 1u);
  uvec4 in_q_e_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 8u;
    uint column = unit % 8u;
    uint k = min(next * 64u + row, 700u - 1u);
    uint chunk = column;
    in_q_e_w0[u] = in_q.w[batch * 5600u + k * 8u + chunk];
  }
  uvec4 in_cotangent_e_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 8u;
    uint column = unit % 8u;
    uint k = min(next * 64u + row, 700u - 1u);
    uint chunk = column;
    in_cotangent_e_w0[u] = in_cotangent.w[batch * 5600u + k * 8u + chunk];
  }
  for (uint block = begin; block < end; ++block) {
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> in_largest_e_beside[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(in_largest_e_beside[j], sums_0[0], in_largest_e_beside_at, batch, first_m, block * 64u + j * 16u);
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> in_log_total_e_beside[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(in_log_total_e_beside[j], sums_0[0], in_log_total_e_beside_at, batch, first_m, block * 64u + j * 16u);
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> in_subtracted_e_beside[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(in_subtracted_e_beside[j], sums_0[0], in_subtracted_e_beside_at, batch, first_m, block * 64u + j * 16u);
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 8u;
      uint column = unit % 8u;
      uint k = min(block * 64u + row, 700u - 1u);
      uint chunk = column;
      tiles[row * 9u + column] = in_q_e_w0[u];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 8u;
      uint column = unit % 8u;
      uint k = min(block * 64u + row, 700u - 1u);
      uint chunk = column;
      tiles[576u + row * 9u + column] = in_cotangent_e_w0[u];
    }
    barrier();
    // The next block is on its way while this one is worked on.
    next = min(block + 1u, 11u - 1u);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 8u;
      uint column = unit % 8u;
      uint k = min(next * 64u + row, 700u - 1u);
      uint chunk = column;
      in_q_e_w0[u] = in_q.w[batch * 5600u + k * 8u + chunk];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 8u;
      uint column = unit % 8u;
      uint k = min(next * 64u + row, 700u - 1u);
      uint chunk = column;
      in_cotangent_e_w0[u] = in_cotangent.w[batch * 5600u + k * 8u + chunk];
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> scores[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) scores[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint d = 0u; d < 4u; ++d) {
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> second;
        coopMatLoad(second, tiles, (j * 16u) * 9u + d * 16u / 8u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
        scores[j] = coopMatMulAdd(in_k_e_factor[d], second, scores[j]);
      }
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> products[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) products[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint d = 0u; d < 4u; ++d) {
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> second;
        coopMatLoad(second, tiles, 576u + (j * 16u) * 9u + d * 16u / 8u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
        products[j] = coopMatMulAdd(in_v_e_factor[d], second, products[j]);
      }
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> found_0;
      coopMatPerElementNV(found_0, scores[j], weight_0_at, in_largest_e_beside[j], in_log_total_e_beside[j], batch, first_m, block * 64u + j * 16u);
      coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> found_1;
      coopMatPerElementNV(found_1, products[j], weight_1_at, found_0, in_subtracted_e_beside[j], batch, first_m, block * 64u + j * 16u);
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weights_0 = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(found_0);
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> third;
        coopMatLoad(third, tiles, 576u + (j * 16u) * 9u + (i * 16u) / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        sums_0[i] = coopMatMulAdd(weights_0, third, sums_0[i]);
      }
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weights_1 = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(found_1);
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> third;
        coopMatLoad(third, tiles, (j * 16u) * 9u + (i * 16u) / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        sums_1[i] = coopMatMulAdd(weights_1, third, sums_1[i]);
      }
    }
    barrier();
  }
  uint own = subgroup * 288u;
  [[unroll]] for (uint i = 0u; i < 2u; ++i) {
    coopMatStore(sums_0[i * 2u + 0u], tiles, own + 0u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(sums_0[i * 2u + 1u], tiles, own + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(sums_1[i * 2u + 0u], tiles, own + 144u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(sums_1[i * 2u + 1u], tiles, own + 148u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    for (uint g = gl_SubgroupInvocationID; g < 128u; g += 32u) {
      uint row = g / 8u;
      uint column = g % 8u;
      uint m = first_m + row;
      uint chunk = i * 8u + column;
      vec4 four = uintBitsToFloat(tiles[own + 0u + row * 9u + column]);
      vec4 four_1 = uintBitsToFloat(tiles[own + 144u + row * 9u + column]);
      if (m < 700u) {
        vec4 out_of_k_0;
        vec4 out_of_v_v34_0;
        result_element(four.x, four_1.x, out_of_k_0[0], out_of_v_v34_0[0]);
        result_element(four.y, four_1.y, out_of_k_0[1], out_of_v_v34_0[1]);
        result_element(four.z, four_1.z, out_of_k_0[2], out_of_v_v34_0[2]);
        result_element(four.w, four_1.w, out_of_k_0[3], out_of_v_v34_0[3]);
        out_of_k.w[batch * 11200u + m * 16u + chunk] = uvec2(f16x2_bits_native(out_of_k_0.xy), f16x2_bits_native(out_of_k_0.zw));
        out_of_v_v34.w[batch * 11200u + m * 16u + chunk] = uvec2(f16x2_bits_native(out_of_v_v34_0.xy), f16x2_bits_native(out_of_v_v34_0.zw));
      }
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  }
}
