#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a vector times float8 weights, of which each row has a scale": cast, decode_float8_e4m3fn, bitcast, cast, broadcast, mul, permute, dot
// 64 rows per workgroup, 4 tiles one after another, whose fragments lanes make; 16 subgroups share the columns, 128 at a time, in products of 16 x 8 x 16
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

shared float row_parts[1024];
shared uint nan_rows[64];
shared uvec4 vector_halves[512];

// Two codes of float8_e4m3fn as f16: the sign, and exponent and fraction where those of an f16 end, 1 / 2^8 of the number.
uint numbers_of(uint word, uint sign_left, uint left, uint right) {
  return ((word << sign_left) & 0x80008000u) | ((word << left >> right) & 0x3f803f80u);
}

// A lane's part of two rows, of each four elements along the sum.
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> rows_of(uint first_low, uint first_high, uint second_low, uint second_high) {
  uint words[4] = uint[4](first_low, first_high, second_low, second_high);
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> rows;
  [[unroll]] for (int i = 0; i < 4; ++i) {
    f16vec2 pair = unpackFloat2x16(words[i]);
    rows[2 * i] = pair.x;
    rows[2 * i + 1] = pair.y;
  }
  return rows;
}

// The same of one column.
coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> column_of(uint low, uint high) {
  uint words[2] = uint[2](low, high);
  coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> column;
  [[unroll]] for (int i = 0; i < 2; ++i) {
    f16vec2 pair = unpackFloat2x16(words[i]);
    column[2 * i] = pair.x;
    column[2 * i + 1] = pair.y;
  }
  return column;
}

// Of a word of each of two rows the numbers of all bytes.
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> rows_of_words(uint first, uint second, uint shift) {
  first >>= shift;
  second >>= shift;
  return rows_of(numbers_of(first, 8u, 7u, 0u), numbers_of(first, 0u, 0u, 1u),
                 numbers_of(second, 8u, 7u, 0u), numbers_of(second, 0u, 0u, 1u));
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint subgroup = gl_SubgroupID;
  uint lane_row = gl_SubgroupInvocationID / 4u, lane_part = gl_SubgroupInvocationID % 4u;
  uint first_row = min(workgroup * 64u, p.chunks - 64u);
  uvec4 in_weights_w0[4];
  uint next_scales[1];
  uint next_shifts[1];
  {
    uint k_slice = subgroup * 2u;
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = first_row + u % 2u * 8u + lane_row;
      uint column = (k_slice + u / 2u) * 4u + lane_part;
      in_weights_w0[u] = in_weights.w[row * 256u + column];
    }
    [[unroll]] for (uint u = 0u; u < 1u; ++u) {
      uint i = u * 4u + lane_part;  // of groups, rows and steps
      uint row = first_row + i % 2u * 8u + lane_row;
      uint column = (k_slice + i / 2u) * 4u;
      next_scales[u] = in_scale.w[row >> 1];
      next_shifts[u] = (row & 1u) * 16u;
    }
  }
  for (uint i = thread; i < 64u; i += 512u) nan_rows[i] = 0u;
  // The vector, of which words meet every second element.
  [[unroll]] for (uint column = thread; column < 256u; column += 512u) {
    uvec4 in_x_w0 = in_x.w[column * 2u];
    uvec4 in_x_w1 = in_x.w[column * 2u + 1u];
    uint at = column * 2u;
    vec4 in_x_0 = vec4(f16x2_values_native(in_x_w0.x), f16x2_values_native(in_x_w0.y));
    vec4 in_x_1 = vec4(f16x2_values_native(in_x_w0.z), f16x2_values_native(in_x_w0.w));
    vec4 in_x_2 = vec4(f16x2_values_native(in_x_w1.x), f16x2_values_native(in_x_w1.y));
    vec4 in_x_3 = vec4(f16x2_values_native(in_x_w1.z), f16x2_values_native(in_x_w1.w));
    vector_halves[at] = uvec4(packFloat2x16(f16vec2(in_x_0[0], in_x_0[2])), packFloat2x16(f16vec2(in_x_0[1], in_x_0[3])), packFloat2x16(f16vec2(in_x_1[0], in_x_1[2])), packFloat2x16(f16vec2(in_x_1[1], in_x_1[3])));
    vector_halves[at + 1u] = uvec4(packFloat2x16(f16vec2(in_x_2[0], in_x_2[2])), packFloat2x16(f16vec2(in_x_2[1], in_x_2[3])), packFloat2x16(f16vec2(in_x_3[0], in_x_3[2])), packFloat2x16(f16vec2(in_x_3[1], in_x_3[3])));
  }
  barrier();
  uint own_row = workgroup * 64u + thread;
  bool inside = thread < 64u && own_row < p.chunks;
  own_row = min(min(own_row, workgroup * 64u + 63u), p.chunks - 1u);
  for (uint tile = 0u; tile < 4u; ++tile) {
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    uint carries[2];
    [[unroll]] for (uint u = 0u; u < 2u; ++u) carries[u] = 0u;
    for (uint round = 0u; round < 2u; ++round) {
      uint k_slice = (round * 16u + subgroup) * 2u;
      if (tile + round > 0u) {
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
          uint row = first_row + u % 2u * 8u + lane_row;
          uint column = (k_slice + u / 2u) * 4u + lane_part;
          in_weights_w0[u] = in_weights.w[row * 256u + column];
        }
        [[unroll]] for (uint u = 0u; u < 1u; ++u) {
          uint i = u * 4u + lane_part;  // of groups, rows and steps
          uint row = first_row + i % 2u * 8u + lane_row;
          uint column = (k_slice + i / 2u) * 4u;
          next_scales[u] = in_scale.w[row >> 1];
          next_shifts[u] = (row & 1u) * 16u;
        }
      }
      float own_scales[1];
      [[unroll]] for (uint u = 0u; u < 1u; ++u) {
        float in_scale_e = f16x2_values_native(next_scales[u] >> next_shifts[u])[0];
        own_scales[u] = in_scale_e * 256.0;
      }
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint column = (k_slice + u) * 4u + lane_part;
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
        uvec4 pairs_0 = vector_halves[column * 2u];
        uvec4 pairs_1 = vector_halves[column * 2u + 1u];
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].x, in_weights_w0[u * 2u + 1u].x, 0u), column_of(pairs_0.x, pairs_0.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].y, in_weights_w0[u * 2u + 1u].y, 0u), column_of(pairs_0.z, pairs_0.w), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].z, in_weights_w0[u * 2u + 1u].z, 0u), column_of(pairs_1.x, pairs_1.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].w, in_weights_w0[u * 2u + 1u].w, 0u), column_of(pairs_1.z, pairs_1.w), part_sums);
        [[unroll]] for (uint r = 0u; r < 2u; ++r) {
          uvec4 carried = (in_weights_w0[u * 2u + r] & 0x7f7f7f7fu) + 0x01010101u;
          carries[r] |= carried.x | carried.y | carried.z | carried.w;
        }
        float scale_0 = subgroupShuffle(own_scales[0u], lane_row * 4u + u * 2u);
        sums[0] = fma(part_sums[0], scale_0, sums[0]);
        sums[1] = fma(part_sums[1], scale_0, sums[1]);
        float scale_2 = subgroupShuffle(own_scales[0u], lane_row * 4u + u * 2u + 1u);
        sums[2] = fma(part_sums[2], scale_2, sums[2]);
        sums[3] = fma(part_sums[3], scale_2, sums[3]);
      }
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      if ((carries[u] & 0x80808080u) != 0u) atomicOr(nan_rows[tile * 16u + u * 8u + lane_row], 1u);
    }
    if (lane_part == 0u) {
      uint at = subgroup * 64u + tile * 16u + lane_row;
      row_parts[at] = sums[0];
      row_parts[at + 8u] = sums[2];
    }
    first_row += 16u;
  }
  barrier();
  float out_y_v = 0.0;
  if (thread < 64u) {
    [[unroll]] for (uint i = 0u; i < 16u; ++i) out_y_v += row_parts[i * 64u + thread];
    if (nan_rows[thread] != 0u) out_y_v = uintBitsToFloat(0x7fc00000u);
  }
  if (inside) {
    out_y.w[own_row] = uint16_t(f16x2_bits_native(vec2(out_y_v)));
  }
}
