#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a vector times float8 weights, of which each row has a scale": cast, decode_float8_e4m3fn, bitcast, cast, broadcast, mul, permute, dot
// 64 rows per workgroup, 4 tiles one after another; 8 subgroups share the columns, 128 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[1, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weights;  // %1 : u8[14336, 4096]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_scale;  // %6 : f16[14336, 1]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint16_t w[]; } out_y;  // %10 : f16[1, 14336]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uvec4 words[1152];
shared float row_parts[512];
shared float scales[128];
shared uint nan_rows[64];
shared uvec4 vector_halves[512];

// Codes of float8_e4m3fn as f16: the sign, and exponent and fraction where those of an f16 end, 1 / 2^8 of the number.
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> numbers_of(coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits, uint sign_left, uint left, uint right) {
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> numbers;
  [[unroll]] for (int i = 0; i < bits.length() / 2; ++i) {
    uint word = packFloat2x16(f16vec2(bits[2 * i], bits[2 * i + 1]));
    f16vec2 pair = unpackFloat2x16(((word << sign_left) & 0x80008000u) | ((word << left >> right) & 0x3f803f80u));
    numbers[2 * i] = pair.x;
    numbers[2 * i + 1] = pair.y;
  }
  return numbers;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint subgroup = gl_SubgroupID;
  uint own_lane = gl_SubgroupInvocationID;
  uint own_words = subgroup * 144u;
  uint first_row = workgroup * 64u;
  uvec4 in_weights_w0[4];
  uint own_scales = subgroup * 16u;
  uint next_scales[1];
  uint next_shifts[1];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint row = min(first_row + u * 4u + own_lane / 8u, p.chunks - 1u);
    uint column = subgroup * 8u + own_lane % 8u;
    in_weights_w0[u] = in_weights.w[row * 256u + column];
  }
  [[unroll]] for (uint u = 0u; u < 1u; ++u) {
    uint i = own_lane % 16u;
    uint row = min(first_row + i, p.chunks - 1u);
    uint column = subgroup * 8u;
    next_scales[u] = in_scale.w[row >> 1];
    next_shifts[u] = (row & 1u) * 16u;
  }
  for (uint i = thread; i < 64u; i += 256u) nan_rows[i] = 0u;
  // The vector, of which fragments meet every second element.
  [[unroll]] for (uint column = thread; column < 256u; column += 256u) {
    uvec4 in_x_w0 = in_x.w[column * 2u];
    uvec4 in_x_w1 = in_x.w[column * 2u + 1u];
    uint at = column / 2u * 4u + column % 2u;
    vec4 in_x_0 = vec4(f16x2_values_native(in_x_w0.x), f16x2_values_native(in_x_w0.y));
    vec4 in_x_1 = vec4(f16x2_values_native(in_x_w0.z), f16x2_values_native(in_x_w0.w));
    vec4 in_x_2 = vec4(f16x2_values_native(in_x_w1.x), f16x2_values_native(in_x_w1.y));
    vec4 in_x_3 = vec4(f16x2_values_native(in_x_w1.z), f16x2_values_native(in_x_w1.w));
    vector_halves[at] = uvec4(packFloat2x16(f16vec2(in_x_0[0], in_x_0[2])), packFloat2x16(f16vec2(in_x_1[0], in_x_1[2])), packFloat2x16(f16vec2(in_x_2[0], in_x_2[2])), packFloat2x16(f16vec2(in_x_3[0], in_x_3[2])));
    vector_halves[at + 2u] = uvec4(packFloat2x16(f16vec2(in_x_0[1], in_x_0[3])), packFloat2x16(f16vec2(in_x_1[1], in_x_1[3])), packFloat2x16(f16vec2(in_x_2[1], in_x_2[3])), packFloat2x16(f16vec2(in_x_3[1], in_x_3[3])));
  }
  barrier();
  uint own_row = workgroup * 64u + thread;
  bool inside = thread < 64u && own_row < p.chunks;
  own_row = min(min(own_row, workgroup * 64u + 63u), p.chunks - 1u);
  for (uint tile = 0u; tile < 4u; ++tile) {
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    uint carries[4];
    [[unroll]] for (uint u = 0u; u < 4u; ++u) carries[u] = 0u;
    for (uint round = 0u; round < 4u; ++round) {
      uint k_slice = round * 8u + subgroup;
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        words[own_words + (u * 4u + own_lane / 8u) * 9u + own_lane % 8u] = in_weights_w0[u];
        uvec4 carried = (in_weights_w0[u] & 0x7f7f7f7fu) + 0x01010101u;
        carries[u] |= carried.x | carried.y | carried.z | carried.w;
      }
      [[unroll]] for (uint u = 0u; u < 1u; ++u) {
        uint i = u * 32u + own_lane;
        float in_scale_e = f16x2_values_native(next_scales[u] >> next_shifts[u])[0];
        if (i < 16u) scales[own_scales + i] = in_scale_e * 256.0;
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
      bool ends = round + 1u == 4u;
      uint next_row = ends && tile + 1u < 4u ? first_row + 16u : first_row;
      uint next_k_slice = ends ? subgroup : k_slice + 8u;
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        uint row = min(next_row + u * 4u + own_lane / 8u, p.chunks - 1u);
        uint column = next_k_slice * 8u + own_lane % 8u;
        in_weights_w0[u] = in_weights.w[row * 256u + column];
      }
      [[unroll]] for (uint u = 0u; u < 1u; ++u) {
        uint i = own_lane % 16u;
        uint row = min(next_row + i, p.chunks - 1u);
        uint column = next_k_slice * 8u;
        next_scales[u] = in_scale.w[row >> 1];
        next_shifts[u] = (row & 1u) * 16u;
      }
      [[unroll]] for (uint part = 0u; part < 1u; ++part) {
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
          uint fragment = part * 4u + i;
          coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits;
          coopMatLoad(bits, words, own_words + fragment * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
          uint at = (k_slice * 4u + fragment) * 4u;
          coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> factors[2];
          [[unroll]] for (uint j = 0u; j < 2u; ++j) coopMatLoad(factors[j], vector_halves, at + j * 2u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
          part_sums = coopMatMulAdd(numbers_of(bits, 8u, 7u, 0u), factors[0], part_sums);
          part_sums = coopMatMulAdd(numbers_of(bits, 0u, 0u, 1u), factors[1], part_sums);
        }
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> scale;
        coopMatLoad(scale, scales, own_scales + part * 16u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        sums = sums + part_sums * scale;
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    }
    coopMatStore(sums, words, own_words, 4u, gl_CooperativeMatrixLayoutColumnMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      if ((carries[u] & 0x80808080u) != 0u) atomicOr(nan_rows[tile * 16u + u * 4u + own_lane / 8u], 1u);
    }
    for (uint i = own_lane; i < 16u; i += 32u) {
      row_parts[subgroup * 64u + tile * 16u + i] = uintBitsToFloat(words[own_words + i / 4u][i % 4u]);
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    first_row += 16u;
  }
  barrier();
  float out_y_v = 0.0;
  if (thread < 64u) {
    [[unroll]] for (uint i = 0u; i < 8u; ++i) out_y_v += row_parts[i * 64u + thread];
    if (nan_rows[thread] != 0u) out_y_v = uintBitsToFloat(0x7fc00000u);
  }
  if (inside) {
    out_y.w[own_row] = uint16_t(f16x2_bits_native(vec2(out_y_v)));
  }
}
