#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a long vector times weights of MXFP4": reshape, iota, mul, shift_right, bit_and, reshape, cast, decode_float4_e2m1fn, ... 20 ops in all
// 16 rows per workgroup, 1 tile one after another; 4 subgroups share the columns, 256 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f16[1, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weights;  // %1 : u8[4096, 2048]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_powers;  // %14 : u8[4096, 128]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint16_t w[]; } out_y;  // %24 : f16[1, 4096]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uvec4 u8x4_values(uint word) {
  return (uvec4(word) >> uvec4(0u, 8u, 16u, 24u)) & 0xffu;
}

// An exponent alone; the smallest is half of the smallest normal f32.
uint float8_e8m0fnu_bits(uint code) {
  uint exponent = code & 0xffu;
  uint normal = exponent << 23;
  uint bits = exponent == 0u ? 0x00400000u : normal;
  return exponent == 0xffu ? 0x7fc00000u : bits;
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// `zero` is 0, which the compiler must not know: NVIDIA's takes a number that is rounded and read again for what it
// was.
float f16_round_native(uint zero, float x) {
  return f16x2_values_native(f16x2_bits_native(vec2(x, 0.0)) | zero).x;
}

shared uvec4 words[576];
shared float row_parts[64];
shared float scales[608];
shared uvec4 masks[16];
shared uvec4 vector_halves[512];

// Codes of float4_e2m1fn as f16: the sign, and exponent and fraction where those of an f16 end, 1 / 2^14 of the number.
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> numbers_of(coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits, uint sign_left, uint left, uint right) {
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> numbers;
  [[unroll]] for (int i = 0; i < bits.length() / 2; ++i) {
    uint word = packFloat2x16(f16vec2(bits[2 * i], bits[2 * i + 1]));
    f16vec2 pair = unpackFloat2x16(((word << sign_left) & 0x80008000u) | ((word << left >> right) & 0x0e000e00u));
    numbers[2 * i] = pair.x;
    numbers[2 * i + 1] = pair.y;
  }
  return numbers;
}

// The elements of the vector that are of a column's group.
coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> of_group(coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> vector, coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> mask) {
  coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> masked;
  [[unroll]] for (int i = 0; i < vector.length() / 2; ++i) {
    uint ones = packFloat2x16(f16vec2(mask[2 * i], mask[2 * i + 1]));
    f16vec2 pair = unpackFloat2x16(packFloat2x16(f16vec2(vector[2 * i], vector[2 * i + 1])) & ones);
    masked[2 * i] = pair.x;
    masked[2 * i + 1] = pair.y;
  }
  return masked;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint subgroup = gl_SubgroupID;
  uint own_lane = gl_SubgroupInvocationID;
  uint own_words = subgroup * 144u;
  uint first_row = workgroup * 16u;
  uvec4 in_weights_w0[4];
  uint own_scales = subgroup * 128u;
  uint next_scales[4];
  uint next_shifts[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint row = min(first_row + u * 4u + own_lane / 8u, p.chunks - 1u);
    uint column = subgroup * 8u + own_lane % 8u;
    in_weights_w0[u] = in_weights.w[row * 128u + column];
  }
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint i = u * 32u + own_lane;
    uint row = min(first_row + i / 8u, p.chunks - 1u);
    uint column = subgroup * 8u + i % 8u * 1u;
    uint in_powers_i = row * 128u + column;
    next_scales[u] = in_powers.w[in_powers_i >> 2];
    next_shifts[u] = (in_powers_i & 3u) * 8u;
  }
  // Each column has the elements of the vector that share a scale.
  for (uint i = thread; i < 16u; i += 128u) masks[i] = uvec4(i % 2u == i / 2u % 2u ? 0xffffffffu : 0u);
  // The vector, of which fragments meet every fourth element.
  [[unroll]] for (uint column = thread; column < 128u; column += 128u) {
    uvec4 in_a_w0 = in_a.w[column * 4u];
    uvec4 in_a_w1 = in_a.w[column * 4u + 1u];
    uvec4 in_a_w2 = in_a.w[column * 4u + 2u];
    uvec4 in_a_w3 = in_a.w[column * 4u + 3u];
    uint at = column / 2u * 8u + column % 2u;
    vec4 in_a_0 = vec4(f16x2_values_native(in_a_w0.x), f16x2_values_native(in_a_w0.y));
    vec4 in_a_1 = vec4(f16x2_values_native(in_a_w0.z), f16x2_values_native(in_a_w0.w));
    vec4 in_a_2 = vec4(f16x2_values_native(in_a_w1.x), f16x2_values_native(in_a_w1.y));
    vec4 in_a_3 = vec4(f16x2_values_native(in_a_w1.z), f16x2_values_native(in_a_w1.w));
    vec4 in_a_4 = vec4(f16x2_values_native(in_a_w2.x), f16x2_values_native(in_a_w2.y));
    vec4 in_a_5 = vec4(f16x2_values_native(in_a_w2.z), f16x2_values_native(in_a_w2.w));
    vec4 in_a_6 = vec4(f16x2_values_native(in_a_w3.x), f16x2_values_native(in_a_w3.y));
    vec4 in_a_7 = vec4(f16x2_values_native(in_a_w3.z), f16x2_values_native(in_a_w3.w));
    vector_halves[at] = uvec4(packFloat2x16(f16vec2(in_a_0[0], in_a_1[0])), packFloat2x16(f16vec2(in_a_2[0], in_a_3[0])), packFloat2x16(f16vec2(in_a_4[0], in_a_5[0])), packFloat2x16(f16vec2(in_a_6[0], in_a_7[0])));
    vector_halves[at + 2u] = uvec4(packFloat2x16(f16vec2(in_a_0[1], in_a_1[1])), packFloat2x16(f16vec2(in_a_2[1], in_a_3[1])), packFloat2x16(f16vec2(in_a_4[1], in_a_5[1])), packFloat2x16(f16vec2(in_a_6[1], in_a_7[1])));
    vector_halves[at + 4u] = uvec4(packFloat2x16(f16vec2(in_a_0[2], in_a_1[2])), packFloat2x16(f16vec2(in_a_2[2], in_a_3[2])), packFloat2x16(f16vec2(in_a_4[2], in_a_5[2])), packFloat2x16(f16vec2(in_a_6[2], in_a_7[2])));
    vector_halves[at + 6u] = uvec4(packFloat2x16(f16vec2(in_a_0[3], in_a_1[3])), packFloat2x16(f16vec2(in_a_2[3], in_a_3[3])), packFloat2x16(f16vec2(in_a_4[3], in_a_5[3])), packFloat2x16(f16vec2(in_a_6[3], in_a_7[3])));
  }
  barrier();
  uint own_row = workgroup * 16u + thread;
  bool inside = thread < 16u && own_row < p.chunks;
  own_row = min(min(own_row, workgroup * 16u + 15u), p.chunks - 1u);
  coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> mask;
  coopMatLoad(mask, masks, 0u, 2u, gl_CooperativeMatrixLayoutColumnMajor);
  for (uint tile = 0u; tile < 1u; ++tile) {
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    for (uint round = 0u; round < 4u; ++round) {
      uint k_slice = round * 4u + subgroup;
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        words[own_words + (u * 4u + own_lane / 8u) * 9u + own_lane % 8u] = in_weights_w0[u];
      }
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        uint i = u * 32u + own_lane;
        uint in_powers_e = u8x4_values(next_scales[u] >> next_shifts[u])[0];
        uint v15 = in_powers_e;
        uint v16 = float8_e8m0fnu_bits(v15);
        precise float v17 = uintBitsToFloat(v16);
        precise float v18 = f16_round_native(p.chunks >> 31, v17);
        scales[own_scales + i % 8u * 16u + i / 8u] = v18 * 16384.0;
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
      bool ends = round + 1u == 4u;
      uint next_row = first_row;
      uint next_k_slice = ends ? subgroup : k_slice + 4u;
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        uint row = min(next_row + u * 4u + own_lane / 8u, p.chunks - 1u);
        uint column = next_k_slice * 8u + own_lane % 8u;
        in_weights_w0[u] = in_weights.w[row * 128u + column];
      }
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        uint i = u * 32u + own_lane;
        uint row = min(next_row + i / 8u, p.chunks - 1u);
        uint column = next_k_slice * 8u + i % 8u * 1u;
        uint in_powers_i = row * 128u + column;
        next_scales[u] = in_powers.w[in_powers_i >> 2];
        next_shifts[u] = (in_powers_i & 3u) * 8u;
      }
      [[unroll]] for (uint part = 0u; part < 4u; ++part) {
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
        [[unroll]] for (uint i = 0u; i < 1u; ++i) {
          uint fragment = part * 1u + i;
          coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits;
          coopMatLoad(bits, words, own_words + fragment * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
          uint at = (k_slice * 4u + fragment) * 8u;
          coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> factors[4];
          [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            coopMatLoad(factors[j], vector_halves, at + j * 2u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            factors[j] = of_group(factors[j], mask);
          }
          part_sums = coopMatMulAdd(numbers_of(bits, 12u, 9u, 0u), factors[0], part_sums);
          part_sums = coopMatMulAdd(numbers_of(bits, 8u, 5u, 0u), factors[1], part_sums);
          part_sums = coopMatMulAdd(numbers_of(bits, 4u, 1u, 0u), factors[2], part_sums);
          part_sums = coopMatMulAdd(numbers_of(bits, 0u, 0u, 3u), factors[3], part_sums);
        }
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> scale;
        coopMatLoad(scale, scales, own_scales + part * 32u, 16u, gl_CooperativeMatrixLayoutColumnMajor);
        sums = sums + part_sums * scale;
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    }
    coopMatStore(sums, words, own_words, 4u, gl_CooperativeMatrixLayoutColumnMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    for (uint i = own_lane; i < 16u; i += 32u) {
      row_parts[subgroup * 16u + tile * 16u + i] = uintBitsToFloat(words[own_words + i / 4u][i % 4u]) + uintBitsToFloat(words[own_words + 4u + i / 4u][i % 4u]);
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
