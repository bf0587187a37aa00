#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a norm, and two matrices of int4 weights one below the other": cast, mul, reduce_mean, add, rsqrt, reshape, mul, cast, ... 30 ops in all
// 16 rows per workgroup, 1 tile one after another; 4 subgroups share the columns, 256 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f16[1, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_g;  // %10 : f16[4096]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_queries;  // %12 : u8[4096, 2048]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uint w[]; } in_queries_scale;  // %24 : f16[4096, 32, 1]
layout(set = 0, binding = 4) readonly buffer Buffer4 { uvec4 w[]; } in_keys;  // %27 : u8[1024, 2048]
layout(set = 0, binding = 5) readonly buffer Buffer5 { uint w[]; } in_keys_scale;  // %34 : f16[1024, 32, 1]
layout(set = 0, binding = 6) writeonly buffer Buffer6 { uint16_t w[]; } out_y;  // %39 : f16[1, 5120]

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

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

// The magnitude of x with the sign of s, exactly, zeros and denormals included: negations flush those on SwiftShader,
// and on NVIDIA whatever bits of a magnitude are flipped is a negation. Not by masking and joining bits: in kernels
// that divide positions, Mesa 22.3's CPU driver then loses the exponent.
float f32_copy_sign(float x, float s) {
  uint bits = floatBitsToUint(x);
  return uintBitsToFloat(f32_is_negative(s) == f32_is_negative(x) ? bits : bits ^ 0x80000000u);
}

float f32_infinity() {
  return uintBitsToFloat(0x7f800000u);
}

float f32_nan() {
  return uintBitsToFloat(0x7fc00000u);
}

// 2 ulp inside the domain; an infinity of the sign of a zero, 0 for infinity, NaN for negatives.
float f32_rsqrt(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude > 0x7f800000u) return x;
  if (magnitude == 0u) return f32_copy_sign(f32_infinity(), x);
  if (f32_is_negative(x)) return f32_nan();
  return magnitude == 0x7f800000u ? 0.0 : inversesqrt(x);
}

shared uvec4 words[576];
shared float row_parts[64];
shared float scales[128];
shared float v3_shared[4];
shared uvec4 vector_halves[512];

// Some bits of each 16 as numbers: among the low bits of a power of 2, which is then taken away. The driver is
// not to know the power: with two constants that it knows, an `and` and an `xor` are two instructions.
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> numbers_of(coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits, uint shift, uint mask, uint power, f16vec2 scale, f16vec2 less) {
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> numbers;
  [[unroll]] for (int i = 0; i < bits.length() / 2; ++i) {
    uint word = packFloat2x16(f16vec2(bits[2 * i], bits[2 * i + 1]));
    f16vec2 pair = fma(unpackFloat2x16(((word >> shift) & mask) ^ power), scale, -less);
    numbers[2 * i] = pair.x;
    numbers[2 * i + 1] = pair.y;
  }
  return numbers;
}

void v3_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(float in_a, inout float v3) {
  precise float v1 = in_a;
  precise float v2 = v1 * v1;
  v3_join(v3, v2);
}

// One element of the vector.
float vector_element(float in_a, float v6, float in_g) {
  precise float v1 = in_a;
  precise float v8 = v6 * v1;
  precise float v9 = f16_round_native(p.chunks >> 31, v8);
  precise float v11 = v9 * in_g;
  return v11;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint subgroup = gl_SubgroupID;
  uint own_lane = gl_SubgroupInvocationID;
  uint own_words = subgroup * 144u;
  uint low = 0x64006400u + (p.chunks & 0x80000000u);
  uint high = 0x64006400u + (p.chunks & 0x80000000u);
  uint first_row = workgroup * 16u;
  uvec4 in_queries_w0[4];
  uint own_scales = subgroup * 32u;
  uint next_scales[1];
  uint next_shifts[1];
  if (first_row < 4096u) {
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = min(first_row + u * 4u + own_lane / 8u, p.chunks - 1u);
      uint column = subgroup * 8u + own_lane % 8u;
      in_queries_w0[u] = in_queries.w[row * 128u + column];
    }
    [[unroll]] for (uint u = 0u; u < 1u; ++u) {
      uint i = u * 32u + own_lane;
      uint row = min(first_row + i / 2u, p.chunks - 1u);
      uint column = subgroup * 8u + i % 2u * 4u;
      uint q = column / 4u;
      uint in_queries_scale_i = row * 32u + q;
      next_scales[u] = in_queries_scale.w[in_queries_scale_i >> 1];
      next_shifts[u] = (in_queries_scale_i & 1u) * 16u;
    }
  } else {
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = min(first_row + u * 4u + own_lane / 8u, p.chunks - 1u);
      uint column = subgroup * 8u + own_lane % 8u;
      in_queries_w0[u] = in_keys.w[row * 128u + column - 524288u];
    }
    [[unroll]] for (uint u = 0u; u < 1u; ++u) {
      uint i = u * 32u + own_lane;
      uint row = min(first_row + i / 2u, p.chunks - 1u);
      uint column = subgroup * 8u + i % 2u * 4u;
      uint q = column / 4u;
      uint in_keys_scale_i = row * 32u + q - 131072u;
      next_scales[u] = in_keys_scale.w[in_keys_scale_i >> 1];
      next_shifts[u] = (in_keys_scale_i & 1u) * 16u;
    }
  }
  uint reduction_thread = thread;
  float v3 = 0.0;
  for (uint column = reduction_thread; column < 128u; column += 128u) {
    uvec4 in_a_w0 = in_a.w[column * 4u];
    uvec4 in_a_w1 = in_a.w[column * 4u + 1u];
    uvec4 in_a_w2 = in_a.w[column * 4u + 2u];
    uvec4 in_a_w3 = in_a.w[column * 4u + 3u];
    vec4 in_a_0 = vec4(f16x2_values_native(in_a_w0.x), f16x2_values_native(in_a_w0.y));
    pass0(in_a_0[0], v3);
    pass0(in_a_0[1], v3);
    pass0(in_a_0[2], v3);
    pass0(in_a_0[3], v3);
    vec4 in_a_1 = vec4(f16x2_values_native(in_a_w0.z), f16x2_values_native(in_a_w0.w));
    pass0(in_a_1[0], v3);
    pass0(in_a_1[1], v3);
    pass0(in_a_1[2], v3);
    pass0(in_a_1[3], v3);
    vec4 in_a_2 = vec4(f16x2_values_native(in_a_w1.x), f16x2_values_native(in_a_w1.y));
    pass0(in_a_2[0], v3);
    pass0(in_a_2[1], v3);
    pass0(in_a_2[2], v3);
    pass0(in_a_2[3], v3);
    vec4 in_a_3 = vec4(f16x2_values_native(in_a_w1.z), f16x2_values_native(in_a_w1.w));
    pass0(in_a_3[0], v3);
    pass0(in_a_3[1], v3);
    pass0(in_a_3[2], v3);
    pass0(in_a_3[3], v3);
    vec4 in_a_4 = vec4(f16x2_values_native(in_a_w2.x), f16x2_values_native(in_a_w2.y));
    pass0(in_a_4[0], v3);
    pass0(in_a_4[1], v3);
    pass0(in_a_4[2], v3);
    pass0(in_a_4[3], v3);
    vec4 in_a_5 = vec4(f16x2_values_native(in_a_w2.z), f16x2_values_native(in_a_w2.w));
    pass0(in_a_5[0], v3);
    pass0(in_a_5[1], v3);
    pass0(in_a_5[2], v3);
    pass0(in_a_5[3], v3);
    vec4 in_a_6 = vec4(f16x2_values_native(in_a_w3.x), f16x2_values_native(in_a_w3.y));
    pass0(in_a_6[0], v3);
    pass0(in_a_6[1], v3);
    pass0(in_a_6[2], v3);
    pass0(in_a_6[3], v3);
    vec4 in_a_7 = vec4(f16x2_values_native(in_a_w3.z), f16x2_values_native(in_a_w3.w));
    pass0(in_a_7[0], v3);
    pass0(in_a_7[1], v3);
    pass0(in_a_7[2], v3);
    pass0(in_a_7[3], v3);
  }
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v3_join(v3, subgroupShuffleXor(v3, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v3_shared[gl_SubgroupID] = v3;
  }
  barrier();
  v3 = v3_shared[gl_SubgroupInvocationID % 4u];
  for (uint mask = 2u; mask > 0u; mask >>= 1) {
    v3_join(v3, subgroupShuffleXor(v3, mask));
  }
  v3 = v3 / float(4096u);
  precise float v5 = v3 + 1e-05;
  precise float v6 = f32_rsqrt(v5);
  // The vector, of which fragments meet every fourth element.
  [[unroll]] for (uint column = thread; column < 128u; column += 128u) {
    uvec4 in_a_w0 = in_a.w[column * 4u];
    uvec4 in_a_w1 = in_a.w[column * 4u + 1u];
    uvec4 in_a_w2 = in_a.w[column * 4u + 2u];
    uvec4 in_a_w3 = in_a.w[column * 4u + 3u];
    uvec4 in_g_w0 = in_g.w[column * 4u];
    uvec4 in_g_w1 = in_g.w[column * 4u + 1u];
    uvec4 in_g_w2 = in_g.w[column * 4u + 2u];
    uvec4 in_g_w3 = in_g.w[column * 4u + 3u];
    uint at = column / 2u * 8u + column % 2u;
    vec4 in_a_0 = vec4(f16x2_values_native(in_a_w0.x), f16x2_values_native(in_a_w0.y));
    vec4 in_g_0 = vec4(f16x2_values_native(in_g_w0.x), f16x2_values_native(in_g_w0.y));
    vec4 in_a_1 = vec4(f16x2_values_native(in_a_w0.z), f16x2_values_native(in_a_w0.w));
    vec4 in_g_1 = vec4(f16x2_values_native(in_g_w0.z), f16x2_values_native(in_g_w0.w));
    vec4 in_a_2 = vec4(f16x2_values_native(in_a_w1.x), f16x2_values_native(in_a_w1.y));
    vec4 in_g_2 = vec4(f16x2_values_native(in_g_w1.x), f16x2_values_native(in_g_w1.y));
    vec4 in_a_3 = vec4(f16x2_values_native(in_a_w1.z), f16x2_values_native(in_a_w1.w));
    vec4 in_g_3 = vec4(f16x2_values_native(in_g_w1.z), f16x2_values_native(in_g_w1.w));
    vec4 in_a_4 = vec4(f16x2_values_native(in_a_w2.x), f16x2_values_native(in_a_w2.y));
    vec4 in_g_4 = vec4(f16x2_values_native(in_g_w2.x), f16x2_values_native(in_g_w2.y));
    vec4 in_a_5 = vec4(f16x2_values_native(in_a_w2.z), f16x2_values_native(in_a_w2.w));
    vec4 in_g_5 = vec4(f16x2_values_native(in_g_w2.z), f16x2_values_native(in_g_w2.w));
    vec4 in_a_6 = vec4(f16x2_values_native(in_a_w3.x), f16x2_values_native(in_a_w3.y));
    vec4 in_g_6 = vec4(f16x2_values_native(in_g_w3.x), f16x2_values_native(in_g_w3.y));
    vec4 in_a_7 = vec4(f16x2_values_native(in_a_w3.z), f16x2_values_native(in_a_w3.w));
    vec4 in_g_7 = vec4(f16x2_values_native(in_g_w3.z), f16x2_values_native(in_g_w3.w));
    vector_halves[at] = uvec4(packFloat2x16(f16vec2(vector_element(in_a_0[0], v6, in_g_0[0]), vector_element(in_a_1[0], v6, in_g_1[0]))), packFloat2x16(f16vec2(vector_element(in_a_2[0], v6, in_g_2[0]), vector_element(in_a_3[0], v6, in_g_3[0]))), packFloat2x16(f16vec2(vector_element(in_a_4[0], v6, in_g_4[0]), vector_element(in_a_5[0], v6, in_g_5[0]))), packFloat2x16(f16vec2(vector_element(in_a_6[0], v6, in_g_6[0]), vector_element(in_a_7[0], v6, in_g_7[0]))));
    vector_halves[at + 2u] = uvec4(packFloat2x16(f16vec2(vector_element(in_a_0[1], v6, in_g_0[1]), vector_element(in_a_1[1], v6, in_g_1[1]))), packFloat2x16(f16vec2(vector_element(in_a_2[1], v6, in_g_2[1]), vector_element(in_a_3[1], v6, in_g_3[1]))), packFloat2x16(f16vec2(vector_element(in_a_4[1], v6, in_g_4[1]), vector_element(in_a_5[1], v6, in_g_5[1]))), packFloat2x16(f16vec2(vector_element(in_a_6[1], v6, in_g_6[1]), vector_element(in_a_7[1], v6, in_g_7[1]))));
    vector_halves[at + 4u] = uvec4(packFloat2x16(f16vec2(vector_element(in_a_0[2], v6, in_g_0[2]), vector_element(in_a_1[2], v6, in_g_1[2]))), packFloat2x16(f16vec2(vector_element(in_a_2[2], v6, in_g_2[2]), vector_element(in_a_3[2], v6, in_g_3[2]))), packFloat2x16(f16vec2(vector_element(in_a_4[2], v6, in_g_4[2]), vector_element(in_a_5[2], v6, in_g_5[2]))), packFloat2x16(f16vec2(vector_element(in_a_6[2], v6, in_g_6[2]), vector_element(in_a_7[2], v6, in_g_7[2]))));
    vector_halves[at + 6u] = uvec4(packFloat2x16(f16vec2(vector_element(in_a_0[3], v6, in_g_0[3]), vector_element(in_a_1[3], v6, in_g_1[3]))), packFloat2x16(f16vec2(vector_element(in_a_2[3], v6, in_g_2[3]), vector_element(in_a_3[3], v6, in_g_3[3]))), packFloat2x16(f16vec2(vector_element(in_a_4[3], v6, in_g_4[3]), vector_element(in_a_5[3], v6, in_g_5[3]))), packFloat2x16(f16vec2(vector_element(in_a_6[3], v6, in_g_6[3]), vector_element(in_a_7[3], v6, in_g_7[3]))));
  }
  barrier();
  uint own_row = workgroup * 16u + thread;
  bool inside = thread < 16u && own_row < p.chunks;
  own_row = min(min(own_row, workgroup * 16u + 15u), p.chunks - 1u);
  for (uint tile = 0u; tile < 1u; ++tile) {
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    for (uint round = 0u; round < 4u; ++round) {
      uint k_slice = round * 4u + subgroup;
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        words[own_words + (u * 4u + own_lane / 8u) * 9u + own_lane % 8u] = in_queries_w0[u];
      }
      [[unroll]] for (uint u = 0u; u < 1u; ++u) {
        uint i = u * 32u + own_lane;
        float in_queries_scale_e = f16x2_values_native(next_scales[u] >> next_shifts[u])[0];
        scales[own_scales + i % 2u * 16u + i / 2u] = in_queries_scale_e;
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
      bool ends = round + 1u == 4u;
      uint next_row = first_row;
      uint next_k_slice = ends ? subgroup : k_slice + 4u;
      if (next_row < 4096u) {
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
          uint row = min(next_row + u * 4u + own_lane / 8u, p.chunks - 1u);
          uint column = next_k_slice * 8u + own_lane % 8u;
          in_queries_w0[u] = in_queries.w[row * 128u + column];
        }
        [[unroll]] for (uint u = 0u; u < 1u; ++u) {
          uint i = u * 32u + own_lane;
          uint row = min(next_row + i / 2u, p.chunks - 1u);
          uint column = next_k_slice * 8u + i % 2u * 4u;
          uint q = column / 4u;
          uint in_queries_scale_i = row * 32u + q;
          next_scales[u] = in_queries_scale.w[in_queries_scale_i >> 1];
          next_shifts[u] = (in_queries_scale_i & 1u) * 16u;
        }
      } else {
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
          uint row = min(next_row + u * 4u + own_lane / 8u, p.chunks - 1u);
          uint column = next_k_slice * 8u + own_lane % 8u;
          in_queries_w0[u] = in_keys.w[row * 128u + column - 524288u];
        }
        [[unroll]] for (uint u = 0u; u < 1u; ++u) {
          uint i = u * 32u + own_lane;
          uint row = min(next_row + i / 2u, p.chunks - 1u);
          uint column = next_k_slice * 8u + i % 2u * 4u;
          uint q = column / 4u;
          uint in_keys_scale_i = row * 32u + q - 131072u;
          next_scales[u] = in_keys_scale.w[in_keys_scale_i >> 1];
          next_shifts[u] = (in_keys_scale_i & 1u) * 16u;
        }
      }
      [[unroll]] for (uint part = 0u; part < 2u; ++part) {
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
          uint fragment = part * 2u + i;
          coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits;
          coopMatLoad(bits, words, own_words + fragment * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
          uint at = (k_slice * 4u + fragment) * 8u;
          coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> factors[4];
          [[unroll]] for (uint j = 0u; j < 4u; ++j) coopMatLoad(factors[j], vector_halves, at + j * 2u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
          part_sums = coopMatMulAdd(numbers_of(bits, 0u, 0x000f000fu, low, f16vec2(1.0hf), f16vec2(1032.0hf)), factors[0], part_sums);
          part_sums = coopMatMulAdd(numbers_of(bits, 0u, 0x00f000f0u, high, f16vec2(0.0625hf), f16vec2(72.0hf)), factors[1], part_sums);
          part_sums = coopMatMulAdd(numbers_of(bits, 8u, 0x000f000fu, low, f16vec2(1.0hf), f16vec2(1032.0hf)), factors[2], part_sums);
          part_sums = coopMatMulAdd(numbers_of(bits, 8u, 0x00f000f0u, high, f16vec2(0.0625hf), f16vec2(72.0hf)), factors[3], part_sums);
        }
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> scale;
        coopMatLoad(scale, scales, own_scales + part * 16u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        sums = sums + part_sums * scale;
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    }
    coopMatStore(sums, words, own_words, 4u, gl_CooperativeMatrixLayoutColumnMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    for (uint i = own_lane; i < 16u; i += 32u) {
      row_parts[subgroup * 16u + tile * 16u + i] = uintBitsToFloat(words[own_words + i / 4u][i % 4u]);
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    first_row += 16u;
  }
  barrier();
  float out_y_v = 0.0;
  if (thread < 16u) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) out_y_v += row_parts[i * 16u + thread];
  }
  if (inside) {
    out_y.w[own_row] = uint16_t(f16x2_bits_native(vec2(out_y_v)));
  }
}
