#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "the gradient of keys": iota, iota, sub, le, dot, select, cast, sub, ... 17 ops in all
// 64 rows per workgroup, 16 of a subgroup of 32; 64 positions of the sum at a time, in products of 16 x 16 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_q;  // %5 : f16[4, 8, 700, 32]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_k;  // %6 : f16[4, 8, 700, 32]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_largest;  // %11 : f32[4, 8, 700, 1]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uint w[]; } in_log_total;  // %13 : f32[4, 8, 700, 1]
layout(set = 0, binding = 4) readonly buffer Buffer4 { uvec4 w[]; } in_cotangent;  // %16 : f16[4, 8, 700, 48]
layout(set = 0, binding = 5) readonly buffer Buffer5 { uvec4 w[]; } in_v;  // %17 : f16[4, 8, 700, 48]
layout(set = 0, binding = 6) readonly buffer Buffer6 { uint w[]; } in_subtracted;  // %20 : f32[4, 8, 700, 1]
layout(set = 0, binding = 7) writeonly buffer Buffer7 { uvec2 w[]; } out_y;  // %26 : f16[4, 8, 700, 32]

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

shared uvec4 tiles[768];  // of the first operand, then of the others, then of the results

// The weight at one position.
void score_element(uint chunk, int v0, float v7_v, float v18_v, float in_largest_e, float in_log_total_e, float in_subtracted_e, out float score_result) {
  int v1 = int(chunk);
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v9 = v4 ? v7_v : uintBitsToFloat(0xff800000u);
  precise float v10 = v9;
  precise float v12 = v10 - in_largest_e;
  precise float v14 = v12 - in_log_total_e;
  precise float v15 = f32_exp(v14);
  precise float v19 = v18_v;
  precise float v21 = v19 - in_subtracted_e;
  precise float v22 = v15 * v21;
  precise float v23 = v22;
  precise float v25 = v4 ? v23 : 0.0;
  score_result = v25;
}

// One element of the results.
void result_element(float out_y_v, out float out_y_result) {
  out_y_result = out_y_v;
}

// What matrices are taken through: `row` and `column` are those of a fragment.
float in_largest_e_beside_at(const in uint row, const in uint column, const in float before, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  uint in_largest_e_w0 = in_largest.w[batch * 700u + chunk];
  float in_largest_e_0 = uintBitsToFloat(in_largest_e_w0);
  return float(in_largest_e_0);
}

float in_log_total_e_beside_at(const in uint row, const in uint column, const in float before, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  uint in_log_total_e_w0 = in_log_total.w[batch * 700u + chunk];
  float in_log_total_e_0 = uintBitsToFloat(in_log_total_e_w0);
  return float(in_log_total_e_0);
}

float in_subtracted_e_beside_at(const in uint row, const in uint column, const in float before, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  uint in_subtracted_e_w0 = in_subtracted.w[batch * 700u + chunk];
  float in_subtracted_e_0 = uintBitsToFloat(in_subtracted_e_w0);
  return float(in_subtracted_e_0);
}

float score_at(const in uint row, const in uint column, const in float product, const in float other_product, const in float in_largest_e, const in float in_log_total_e, const in float in_subtracted_e, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 700u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  int v0 = int(m);
  float score;
  score_element(chunk, v0, product, other_product, in_largest_e, in_log_total_e, in_subtracted_e, score);
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
  for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 4u;
    uint column = unit % 4u;
    uint m = min(tile_m * 64u + row, 700u - 1u);
    uint chunk = column;
    uvec4 in_k_e_w0 = in_k.w[batch * 2800u + m * 4u + chunk];
    tiles[row * 5u + column] = in_k_e_w0;
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_k_e_factor[2];
  [[unroll]] for (uint d = 0u; d < 2u; ++d) coopMatLoad(in_k_e_factor[d], tiles, (subgroup * 16u) * 5u + d * 16u / 8u, 5u, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  for (uint u = 0u; u < 3u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 6u;
    uint column = unit % 6u;
    uint m = min(tile_m * 64u + row, 700u - 1u);
    uint chunk = column;
    uvec4 in_v_e_w0 = in_v.w[batch * 4200u + m * 6u + chunk];
    tiles[row * 7u + column] = in_v_e_w0;
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_v_e_factor[3];
  [[unroll]] for (uint d = 0u; d < 3u; ++d) coopMatLoad(in_v_e_factor[d], tiles, (subgroup * 16u) * 7u + d * 16u / 8u, 7u, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums[2];
  [[unroll]] for (uint i = 0u; i < 2u; ++i) sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  // Blocks in which the mask leaves some row something.
  int lowest = int(tile_m * 64u);
  int highest = min(lowest + 63, int(700u) - 1);
  int last = int(700u) - 1;
  int first = 0;
  first = max(first, lowest);
  uint end = uint(max(last, -1) + 64) / 64u;
  uint begin = uint(first) / 64u;
  uint next = min(begin, 11u - 1u);
  uvec4 in_q_e_w0[2];
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 4u;
    uint column = unit % 4u;
    uint k = min(next * 64u + row, 700u - 1u);
    uint chunk = column;
    in_q_e_w0[u] = in_q.w[batch * 2800u + k * 4u + chunk];
  }
  uvec4 in_cotangent_e_w0[3];
  [[unroll]] for (uint u = 0u; u < 3u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 6u;
    uint column = unit % 6u;
    uint k = min(next * 64u + row, 700u - 1u);
    uint chunk = column;
    in_cotangent_e_w0[u] = in_cotangent.w[batch * 4200u + k * 6u + chunk];
  }
  for (uint block = begin; block < end; ++block) {
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> in_largest_e_beside[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(in_largest_e_beside[j], sums[0], in_largest_e_beside_at, batch, first_m, block * 64u + j * 16u);
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> in_log_total_e_beside[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(in_log_total_e_beside[j], sums[0], in_log_total_e_beside_at, batch, first_m, block * 64u + j * 16u);
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> in_subtracted_e_beside[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(in_subtracted_e_beside[j], sums[0], in_subtracted_e_beside_at, batch, first_m, block * 64u + j * 16u);
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 4u;
      uint column = unit % 4u;
      uint k = min(block * 64u + row, 700u - 1u);
      uint chunk = column;
      tiles[row * 5u + column] = in_q_e_w0[u];
    }
    [[unroll]] for (uint u = 0u; u < 3u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 6u;
      uint column = unit % 6u;
      uint k = min(block * 64u + row, 700u - 1u);
      uint chunk = column;
      tiles[320u + row * 7u + column] = in_cotangent_e_w0[u];
    }
    barrier();
    // The next block is on its way while this one is worked on.
    next = min(block + 1u, 11u - 1u);
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 4u;
      uint column = unit % 4u;
      uint k = min(next * 64u + row, 700u - 1u);
      uint chunk = column;
      in_q_e_w0[u] = in_q.w[batch * 2800u + k * 4u + chunk];
    }
    [[unroll]] for (uint u = 0u; u < 3u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit / 6u;
      uint column = unit % 6u;
      uint k = min(next * 64u + row, 700u - 1u);
      uint chunk = column;
      in_cotangent_e_w0[u] = in_cotangent.w[batch * 4200u + k * 6u + chunk];
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> scores[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) scores[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint d = 0u; d < 2u; ++d) {
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> second;
        coopMatLoad(second, tiles, (j * 16u) * 5u + d * 16u / 8u, 5u, gl_CooperativeMatrixLayoutColumnMajor);
        scores[j] = coopMatMulAdd(in_k_e_factor[d], second, scores[j]);
      }
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> products[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) products[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint d = 0u; d < 3u; ++d) {
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> second;
        coopMatLoad(second, tiles, 320u + (j * 16u) * 7u + d * 16u / 8u, 7u, gl_CooperativeMatrixLayoutColumnMajor);
        products[j] = coopMatMulAdd(in_v_e_factor[d], second, products[j]);
      }
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      coopMatPerElementNV(scores[j], scores[j], score_at, products[j], in_largest_e_beside[j], in_log_total_e_beside[j], in_subtracted_e_beside[j], batch, first_m, block * 64u + j * 16u);
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weights = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(scores[j]);
      [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> third;
        coopMatLoad(third, tiles, (j * 16u) * 5u + (i * 16u) / 8u, 5u, gl_CooperativeMatrixLayoutRowMajor);
        sums[i] = coopMatMulAdd(weights, third, sums[i]);
      }
    }
    barrier();
  }
  uint own = subgroup * 144u;
  coopMatStore(sums[0u], tiles, own + 0u, 9u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(sums[1u], tiles, own + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
  controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  for (uint g = gl_SubgroupInvocationID; g < 128u; g += 32u) {
    uint row = g / 8u;
    uint column = g % 8u;
    uint m = first_m + row;
    uint chunk = column;
    vec4 four = uintBitsToFloat(tiles[own + 0u + row * 9u + column]);
    if (m < 700u) {
      vec4 out_y_0;
      result_element(four.x, out_y_0[0]);
      result_element(four.y, out_y_0[1]);
      result_element(four.z, out_y_0[2]);
      result_element(four.w, out_y_0[3]);
      out_y.w[batch * 5600u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
  }
  controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}
