#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "attention, and the logarithm of its sums": iota, iota, sub, le, mul, reshape, dot, reshape, ... 25 ops in all
// 64 rows per workgroup, 16 of a subgroup of 32; 32 positions of the softmax at a time, in products of 16 x 16 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_q;  // %5 : f16[4, 16, 700, 32]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_k;  // %9 : f16[4, 4, 700, 32]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_v;  // %24 : f16[4, 4, 700, 32]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %26 : f16[4, 16, 700, 32]
layout(set = 0, binding = 4) writeonly buffer Buffer4 { uint w[]; } out_log_sum_exp;  // %30 : f32[4, 16, 700]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// `zero` is 0, which the compiler must not know: NVIDIA's takes a number that is rounded and read again for what it
// was.
float f16_round_native(uint zero, float x) {
  return f16x2_values_native(f16x2_bits_native(vec2(x, 0.0)) | zero).x;
}

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

bool f32_is_finite(float x) {
  return f32_magnitude_bits(x) < 0x7f800000u;
}

float f32_infinity() {
  return uintBitsToFloat(0x7f800000u);
}

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

float f32_nan() {
  return uintBitsToFloat(0x7fc00000u);
}

// Vulkan's precision, 3 ulp or 2^-21 on [0.5, 2]; -infinity at zeros, NaN below. Drivers take a denormal for the
// smallest normal number, or for zero: its bits, as a whole number, are x * 2^149, and that is a normal number.
float f32_log(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude == 0u) return -f32_infinity();
  if (f32_is_negative(x)) return f32_nan();
  precise float logarithm = log(magnitude < 0x800000u ? float(magnitude) : x);
  precise float result = magnitude < 0x800000u ? logarithm - 103.27893 : logarithm;  // 149 log(2)
  return magnitude >= 0x7f800000u ? x : result;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

float f32_max_bits(float x, float y) {
  float larger = x < y ? y : x;
  larger = f32_is_nan(y) ? y : larger;
  return f32_is_nan(x) ? x : larger;
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

shared uvec4 tiles[1088];  // of the first operand, then of the others, then of the results

// One element of an operand.
void v7_factor_element(float in_q_e, out float tile_operand) {
  precise float v7 = in_q_e * 0.25;
  tile_operand = v7;
}

// The score at one position.
void score_element(uint chunk, int v1, float v10_v, out float score_result) {
  int v0 = int(chunk);
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v13 = v4 ? v10_v : uintBitsToFloat(0xff800000u);
  precise float v14 = v13;
  score_result = v14;
}

// What the exponential of a score becomes before it weights.
void weight_element(float v18, out float weight_result) {
  precise float v22 = f16_round_native(p.chunks >> 31, v18);
  weight_result = v22;
}

// One element of the results.
void result_element(uint batch, uint m, uint chunk, uint j, float v15, float v19, float v25_v, out float out_y_result) {
  precise float v21 = f32_div(v25_v, v19);
  precise float v22_v = v21;
  bool v27 = f32_is_finite(v15);
  precise float v28 = f32_log(v19);
  precise float v29 = v28 + v15;
  precise float out_log_sum_exp_v = v27 ? v29 : v15;
  out_y_result = v22_v;
  if (((j + chunk * 4u) == 0u)) {
    out_log_sum_exp.w[batch * 2800u + m] = floatBitsToUint(out_log_sum_exp_v);
  }
}

// What matrices are taken through: `row` and `column` are those of a fragment.
float larger(const in float a, const in float b) {
  return f32_max_bits(a, b);
}

float added(const in float a, const in float b) {
  return a + b;
}

float larger_of(const in uint row, const in uint column, const in float a, const in float b) {
  return f32_max_bits(a, b);
}

// A row without a score above -infinity so far has nothing to be compared with.
float base_of(const in uint row, const in uint column, const in float top) {
  return top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
}

float power_of(const in uint row, const in uint column, const in float score, const in float base) {
  precise float fallen = score - base;
  return f32_exp(fallen);
}

float score_at(const in uint row, const in uint column, const in float product, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 2800u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  uint r = m % 700u;
  int v1 = int(r);
  float score;
  score_element(chunk, v1, product, score);
  return first_k + column >= 700u ? uintBitsToFloat(0xff800000u) : score;
}

float weight_at(const in uint row, const in uint column, const in float power, const in uint batch, const in uint first_m, const in uint first_k) {
  uint m = min(first_m + row, 2800u - 1u);
  uint chunk = min(first_k + column, 700u - 1u);
  float weight;
  weight_element(power, weight);
  return weight;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 44u;
  // Tiles that visit the most blocks begin first, so that none of them is left to the end.
  uint tile_m = 44u - 1u - workgroup % 44u;
  uint subgroup = gl_SubgroupID;
  uint first_m = tile_m * 64u + subgroup * 16u;
  for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 4u;
    uint column = unit % 4u;
    uint m = min(tile_m * 64u + row, 2800u - 1u);
    uint chunk = column;
    uvec4 in_q_e_w0 = in_q.w[batch * 11200u + m * 4u + chunk];
    vec4 in_q_e_0 = vec4(f16x2_values_native(in_q_e_w0.x), f16x2_values_native(in_q_e_w0.y));
    vec4 factor_0;
    v7_factor_element(in_q_e_0[0], factor_0[0]);
    v7_factor_element(in_q_e_0[1], factor_0[1]);
    v7_factor_element(in_q_e_0[2], factor_0[2]);
    v7_factor_element(in_q_e_0[3], factor_0[3]);
    vec4 in_q_e_1 = vec4(f16x2_values_native(in_q_e_w0.z), f16x2_values_native(in_q_e_w0.w));
    vec4 factor_1;
    v7_factor_element(in_q_e_1[0], factor_1[0]);
    v7_factor_element(in_q_e_1[1], factor_1[1]);
    v7_factor_element(in_q_e_1[2], factor_1[2]);
    v7_factor_element(in_q_e_1[3], factor_1[3]);
    tiles[row * 5u + column] = uvec4(f16x2_bits_native(factor_0.xy), f16x2_bits_native(factor_0.zw), f16x2_bits_native(factor_1.xy), f16x2_bits_native(factor_1.zw));
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> v7_factor[2];
  [[unroll]] for (uint d = 0u; d < 2u; ++d) coopMatLoad(v7_factor[d], tiles, (subgroup * 16u) * 5u + d * 16u / 8u, 5u, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> most = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(uintBitsToFloat(0xff800000u));
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> total = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);  // of every column of a fragment
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums[2];
  [[unroll]] for (uint i = 0u; i < 2u; ++i) sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  // Blocks in which the mask leaves some row something.
  int lowest = int((tile_m * 64u) % 700u);
  int highest = min(lowest + 63, int(700u) - 1);
  // A tile that crosses into the next run counts as having every position of a run.
  if (lowest + 63 > highest) lowest = 0;
  int last = int(700u) - 1;
  last = min(last, highest);
  uint end = uint(max(last, -1) + 32) / 32u;
  uint next = 0u;
  uvec4 in_k_e_w0;
  {
    const uint u = 0u;
    uint unit = thread;
    uint row = unit / 4u;
    uint column = unit % 4u;
    uint k = min(next * 32u + row, 700u - 1u);
    uint chunk = column;
    in_k_e_w0 = in_k.w[batch * 2800u + k * 4u + chunk];
  }
  uvec4 in_v_w0;
  {
    const uint u = 0u;
    uint unit = thread;
    uint row = unit % 4u;
    uint column = unit / 4u;
    uint chunk = row;
    uint k = min(next * 32u + column, 700u - 1u);
    in_v_w0 = in_v.w[batch * 2800u + chunk + k * 4u];
  }
  // The products of a block are found while scores of the one before it become weights.
  {
    const uint u = 0u;
    uint unit = thread;
    uint row = unit / 4u;
    uint column = unit % 4u;
    uint k = min(next * 32u + row, 700u - 1u);
    uint chunk = column;
    tiles[row * 5u + column] = in_k_e_w0;
  }
  barrier();
  next = min(next + 1u, 22u - 1u);
  {
    const uint u = 0u;
    uint unit = thread;
    uint row = unit / 4u;
    uint column = unit % 4u;
    uint k = min(next * 32u + row, 700u - 1u);
    uint chunk = column;
    in_k_e_w0 = in_k.w[batch * 2800u + k * 4u + chunk];
  }
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> scores[2];
  [[unroll]] for (uint j = 0u; j < 2u; ++j) scores[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  [[unroll]] for (uint d = 0u; d < 2u; ++d) {
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> second;
      coopMatLoad(second, tiles, (j * 16u) * 5u + d * 16u / 8u, 5u, gl_CooperativeMatrixLayoutColumnMajor);
      scores[j] = coopMatMulAdd(v7_factor[d], second, scores[j]);
    }
  }
  barrier();
  for (uint block = 0u; block < end; ++block) {
    uint prefetched = min(block + 1u, 22u - 1u);
    {
      const uint u = 0u;
      uint unit = thread;
      uint row = unit / 4u;
      uint column = unit % 4u;
      uint k = min(prefetched * 32u + row, 700u - 1u);
      uint chunk = column;
      tiles[row * 5u + column] = in_k_e_w0;
    }
    {
      const uint u = 0u;
      uint unit = thread;
      uint row = unit % 4u;
      uint column = unit / 4u;
      uint chunk = row;
      uint k = min(block * 32u + column, 700u - 1u);
      tiles[160u + column * 5u + row] = block * 32u + column < 700u ? in_v_w0 : uvec4(0);
    }
    barrier();
    // The next block is on its way while this one is worked on.
    next = min(prefetched + 1u, 22u - 1u);
    {
      const uint u = 0u;
      uint unit = thread;
      uint row = unit / 4u;
      uint column = unit % 4u;
      uint k = min(next * 32u + row, 700u - 1u);
      uint chunk = column;
      in_k_e_w0 = in_k.w[batch * 2800u + k * 4u + chunk];
    }
    {
      const uint u = 0u;
      uint unit = thread;
      uint row = unit % 4u;
      uint column = unit / 4u;
      uint chunk = row;
      uint k = min(prefetched * 32u + column, 700u - 1u);
      in_v_w0 = in_v.w[batch * 2800u + chunk + k * 4u];
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> coming_scores[2];
    [[unroll]] for (uint j = 0u; j < 2u; ++j) coming_scores[j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint d = 0u; d < 2u; ++d) {
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> second;
        coopMatLoad(second, tiles, (j * 16u) * 5u + d * 16u / 8u, 5u, gl_CooperativeMatrixLayoutColumnMajor);
        coming_scores[j] = coopMatMulAdd(v7_factor[d], second, coming_scores[j]);
      }
    }
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> highest = most;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
      coopMatPerElementNV(scores[j], scores[j], score_at, batch, first_m, block * 32u + j * 16u);
      coopMatPerElementNV(highest, highest, larger_of, scores[j]);
    }
    coopMatReduceNV(highest, highest, gl_CooperativeMatrixReduceRowNV, larger);
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> base;
    coopMatPerElementNV(base, highest, base_of);
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> fallen;
    coopMatPerElementNV(fallen, most, power_of, base);
    most = highest;
    total = total * fallen;
    [[unroll]] for (uint i = 0u; i < 2u; ++i) sums[i] = sums[i] * fallen;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
      coopMatPerElementNV(scores[j], scores[j], power_of, base);
      total = total + scores[j];
      coopMatPerElementNV(scores[j], scores[j], weight_at, batch, first_m, block * 32u + j * 16u);
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> weights = coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(scores[j]);
      [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> third;
        coopMatLoad(third, tiles, 160u + (j * 16u) * 5u + (i * 16u) / 8u, 5u, gl_CooperativeMatrixLayoutRowMajor);
        sums[i] = coopMatMulAdd(weights, third, sums[i]);
      }
    }
    [[unroll]] for (uint j = 0u; j < 2u; ++j) scores[j] = coming_scores[j];
    barrier();
  }
  uint own = subgroup * 272u;
  coopMatReduceNV(total, total, gl_CooperativeMatrixReduceRowNV, added);
  coopMatStore(most, tiles, own, 4u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(total, tiles, own + 64u, 4u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(sums[0u], tiles, own + 128u, 9u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(sums[1u], tiles, own + 132u, 9u, gl_CooperativeMatrixLayoutRowMajor);
  controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  for (uint g = gl_SubgroupInvocationID; g < 128u; g += 32u) {
    uint row = g / 8u;
    uint column = g % 8u;
    uint m = first_m + row;
    uint chunk = column;
    float top = uintBitsToFloat(tiles[own + row * 4u].x);
    float whole = uintBitsToFloat(tiles[own + 64u + row * 4u].x);
    // An infinite or undefined maximum leaves no number.
    if (f32_magnitude_bits(top) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);
    vec4 four = uintBitsToFloat(tiles[own + 128u + row * 9u + column]);
    if (m < 2800u) {
      vec4 out_y_0;
      result_element(batch, m, chunk, 0u, top, whole, four.x, out_y_0[0]);
      result_element(batch, m, chunk, 1u, top, whole, four.y, out_y_0[1]);
      result_element(batch, m, chunk, 2u, top, whole, four.z, out_y_0[2]);
      result_element(batch, m, chunk, 3u, top, whole, four.w, out_y_0[3]);
      out_y.w[batch * 22400u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
  }
  controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}
