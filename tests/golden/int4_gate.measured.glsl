#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a long vector times two matrices of int4 weights, and a gate": reshape, iota, mul, shift_right, bit_and, reshape, cast, sub, ... 25 ops in all
// 64 rows per workgroup, 4 tiles one after another, whose fragments lanes make; 16 subgroups share the columns, 256 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f16[1, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_gate;  // %1 : u8[14336, 2048]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_gate_scale;  // %13 : f16[14336, 32, 1]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uvec4 w[]; } in_up;  // %20 : u8[14336, 2048]
layout(set = 0, binding = 4) readonly buffer Buffer4 { uint w[]; } in_up_scale;  // %27 : f16[14336, 32, 1]
layout(set = 0, binding = 5) writeonly buffer Buffer5 { uint16_t w[]; } out_y;  // %32 : f16[1, 14336]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// e^-x is held below 2^126, where Vulkan bounds the division.
float f16_sigmoid(float x) {
  precise float power = exp2(min(x * -1.442695, 125.0));
  precise float result = 1.0 / (1.0 + power);
  return f32_is_nan(x) ? x : result;
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared float row_parts[2048];
shared uvec4 vector_halves[512];

// Some bits of each half of a word as two numbers: among the low bits of a power of 2, which is then taken
// away. The driver is not to know the power: with two constants that it knows, an `and` and an `xor` are two
// instructions.
uint numbers_of(uint word, uint shift, uint mask, uint power, f16vec2 scale, f16vec2 less) {
  return packFloat2x16(fma(unpackFloat2x16(((word >> shift) & mask) ^ power), scale, -less));
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

// Of a word of each of two rows the numbers from a bit on, and those four bits above.
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> rows_of_words(uint first, uint second, uint shift, uint low, uint high) {
  first >>= shift;
  second >>= shift;
  return rows_of(numbers_of(first, 0u, 0x000f000fu, low, f16vec2(1.0hf), f16vec2(1032.0hf)), numbers_of(first, 0u, 0x00f000f0u, high, f16vec2(0.0625hf), f16vec2(72.0hf)),
                 numbers_of(second, 0u, 0x000f000fu, low, f16vec2(1.0hf), f16vec2(1032.0hf)), numbers_of(second, 0u, 0x00f000f0u, high, f16vec2(0.0625hf), f16vec2(72.0hf)));
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint subgroup = gl_SubgroupID;
  uint lane_row = gl_SubgroupInvocationID / 4u, lane_part = gl_SubgroupInvocationID % 4u;
  uint low = 0x64006400u + (p.chunks & 0x80000000u);
  uint high = 0x64006400u + (p.chunks & 0x80000000u);
  uint first_row = min(workgroup * 64u, p.chunks - 64u);
  uvec4 in_gate_w0[4];
  uvec4 in_up_w0[4];
  uint next_scales[1];
  uint next_shifts[1];
  {
    uint k_slice = subgroup * 2u;
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = first_row + u % 2u * 8u + lane_row;
      uint column = (k_slice + u / 2u) * 4u + lane_part;
      in_gate_w0[u] = in_gate.w[row * 128u + column];
    }
    [[unroll]] for (uint u = 0u; u < 1u; ++u) {
      uint i = u * 4u + lane_part;  // of groups, rows and steps
      uint row = first_row + i % 2u * 8u + lane_row;
      uint column = (k_slice + i / 2u) * 4u;
      uint q = column / 4u;
      uint in_gate_scale_i = row * 32u + q;
      next_scales[u] = in_gate_scale.w[in_gate_scale_i >> 1];
      next_shifts[u] = (in_gate_scale_i & 1u) * 16u;
    }
  }
  // The vector, of which words meet every fourth element.
  [[unroll]] for (uint column = thread; column < 128u; column += 512u) {
    uvec4 in_a_w0 = in_a.w[column * 4u];
    uvec4 in_a_w1 = in_a.w[column * 4u + 1u];
    uvec4 in_a_w2 = in_a.w[column * 4u + 2u];
    uvec4 in_a_w3 = in_a.w[column * 4u + 3u];
    uint at = column * 4u;
    vec4 in_a_0 = vec4(f16x2_values_native(in_a_w0.x), f16x2_values_native(in_a_w0.y));
    vec4 in_a_1 = vec4(f16x2_values_native(in_a_w0.z), f16x2_values_native(in_a_w0.w));
    vec4 in_a_2 = vec4(f16x2_values_native(in_a_w1.x), f16x2_values_native(in_a_w1.y));
    vec4 in_a_3 = vec4(f16x2_values_native(in_a_w1.z), f16x2_values_native(in_a_w1.w));
    vec4 in_a_4 = vec4(f16x2_values_native(in_a_w2.x), f16x2_values_native(in_a_w2.y));
    vec4 in_a_5 = vec4(f16x2_values_native(in_a_w2.z), f16x2_values_native(in_a_w2.w));
    vec4 in_a_6 = vec4(f16x2_values_native(in_a_w3.x), f16x2_values_native(in_a_w3.y));
    vec4 in_a_7 = vec4(f16x2_values_native(in_a_w3.z), f16x2_values_native(in_a_w3.w));
    vector_halves[at] = uvec4(packFloat2x16(f16vec2(in_a_0[0], in_a_1[0])), packFloat2x16(f16vec2(in_a_0[1], in_a_1[1])), packFloat2x16(f16vec2(in_a_0[2], in_a_1[2])), packFloat2x16(f16vec2(in_a_0[3], in_a_1[3])));
    vector_halves[at + 1u] = uvec4(packFloat2x16(f16vec2(in_a_2[0], in_a_3[0])), packFloat2x16(f16vec2(in_a_2[1], in_a_3[1])), packFloat2x16(f16vec2(in_a_2[2], in_a_3[2])), packFloat2x16(f16vec2(in_a_2[3], in_a_3[3])));
    vector_halves[at + 2u] = uvec4(packFloat2x16(f16vec2(in_a_4[0], in_a_5[0])), packFloat2x16(f16vec2(in_a_4[1], in_a_5[1])), packFloat2x16(f16vec2(in_a_4[2], in_a_5[2])), packFloat2x16(f16vec2(in_a_4[3], in_a_5[3])));
    vector_halves[at + 3u] = uvec4(packFloat2x16(f16vec2(in_a_6[0], in_a_7[0])), packFloat2x16(f16vec2(in_a_6[1], in_a_7[1])), packFloat2x16(f16vec2(in_a_6[2], in_a_7[2])), packFloat2x16(f16vec2(in_a_6[3], in_a_7[3])));
  }
  barrier();
  uint own_row = workgroup * 64u + thread;
  bool inside = thread < 64u && own_row < p.chunks;
  own_row = min(min(own_row, workgroup * 64u + 63u), p.chunks - 1u);
  for (uint tile = 0u; tile < 4u; ++tile) {
    {
      coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
      for (uint round = 0u; round < 1u; ++round) {
        uint k_slice = (round * 16u + subgroup) * 2u;
        if (tile + round > 0u) {
          [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            uint row = first_row + u % 2u * 8u + lane_row;
            uint column = (k_slice + u / 2u) * 4u + lane_part;
            in_gate_w0[u] = in_gate.w[row * 128u + column];
          }
          [[unroll]] for (uint u = 0u; u < 1u; ++u) {
            uint i = u * 4u + lane_part;  // of groups, rows and steps
            uint row = first_row + i % 2u * 8u + lane_row;
            uint column = (k_slice + i / 2u) * 4u;
            uint q = column / 4u;
            uint in_gate_scale_i = row * 32u + q;
            next_scales[u] = in_gate_scale.w[in_gate_scale_i >> 1];
            next_shifts[u] = (in_gate_scale_i & 1u) * 16u;
          }
        }
        float own_scales[1];
        [[unroll]] for (uint u = 0u; u < 1u; ++u) {
          float in_gate_scale_e = f16x2_values_native(next_scales[u] >> next_shifts[u])[0];
          own_scales[u] = in_gate_scale_e;
        }
        [[unroll]] for (uint u = 0u; u < 2u; ++u) {
          uint column = (k_slice + u) * 4u + lane_part;
          coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
          uvec4 pairs_0 = vector_halves[column * 4u];
          uvec4 pairs_1 = vector_halves[column * 4u + 1u];
          uvec4 pairs_2 = vector_halves[column * 4u + 2u];
          uvec4 pairs_3 = vector_halves[column * 4u + 3u];
          part_sums = coopMatMulAdd(rows_of_words(in_gate_w0[u * 2u].x, in_gate_w0[u * 2u + 1u].x, 0u, low, high), column_of(pairs_0.x, pairs_0.y), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_gate_w0[u * 2u].x, in_gate_w0[u * 2u + 1u].x, 8u, low, high), column_of(pairs_0.z, pairs_0.w), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_gate_w0[u * 2u].y, in_gate_w0[u * 2u + 1u].y, 0u, low, high), column_of(pairs_1.x, pairs_1.y), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_gate_w0[u * 2u].y, in_gate_w0[u * 2u + 1u].y, 8u, low, high), column_of(pairs_1.z, pairs_1.w), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_gate_w0[u * 2u].z, in_gate_w0[u * 2u + 1u].z, 0u, low, high), column_of(pairs_2.x, pairs_2.y), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_gate_w0[u * 2u].z, in_gate_w0[u * 2u + 1u].z, 8u, low, high), column_of(pairs_2.z, pairs_2.w), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_gate_w0[u * 2u].w, in_gate_w0[u * 2u + 1u].w, 0u, low, high), column_of(pairs_3.x, pairs_3.y), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_gate_w0[u * 2u].w, in_gate_w0[u * 2u + 1u].w, 8u, low, high), column_of(pairs_3.z, pairs_3.w), part_sums);
          float scale_0 = subgroupShuffle(own_scales[0u], lane_row * 4u + u * 2u);
          sums[0] = fma(part_sums[0], scale_0, sums[0]);
          sums[1] = fma(part_sums[1], scale_0, sums[1]);
          float scale_2 = subgroupShuffle(own_scales[0u], lane_row * 4u + u * 2u + 1u);
          sums[2] = fma(part_sums[2], scale_2, sums[2]);
          sums[3] = fma(part_sums[3], scale_2, sums[3]);
        }
      }
      if (lane_part == 0u) {
        uint at = subgroup * 64u + tile * 16u + lane_row;
        row_parts[at] = sums[0];
        row_parts[at + 8u] = sums[2];
      }
    }
    {
      coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
      for (uint round = 0u; round < 1u; ++round) {
        uint k_slice = (round * 16u + subgroup) * 2u;
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
          uint row = first_row + u % 2u * 8u + lane_row;
          uint column = (k_slice + u / 2u) * 4u + lane_part;
          in_up_w0[u] = in_up.w[row * 128u + column];
        }
        [[unroll]] for (uint u = 0u; u < 1u; ++u) {
          uint i = u * 4u + lane_part;  // of groups, rows and steps
          uint row = first_row + i % 2u * 8u + lane_row;
          uint column = (k_slice + i / 2u) * 4u;
          uint q = column / 4u;
          uint in_up_scale_i = row * 32u + q;
          next_scales[u] = in_up_scale.w[in_up_scale_i >> 1];
          next_shifts[u] = (in_up_scale_i & 1u) * 16u;
        }
        float own_scales[1];
        [[unroll]] for (uint u = 0u; u < 1u; ++u) {
          float in_up_scale_e = f16x2_values_native(next_scales[u] >> next_shifts[u])[0];
          own_scales[u] = in_up_scale_e;
        }
        [[unroll]] for (uint u = 0u; u < 2u; ++u) {
          uint column = (k_slice + u) * 4u + lane_part;
          coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
          uvec4 pairs_0 = vector_halves[column * 4u];
          uvec4 pairs_1 = vector_halves[column * 4u + 1u];
          uvec4 pairs_2 = vector_halves[column * 4u + 2u];
          uvec4 pairs_3 = vector_halves[column * 4u + 3u];
          part_sums = coopMatMulAdd(rows_of_words(in_up_w0[u * 2u].x, in_up_w0[u * 2u + 1u].x, 0u, low, high), column_of(pairs_0.x, pairs_0.y), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_up_w0[u * 2u].x, in_up_w0[u * 2u + 1u].x, 8u, low, high), column_of(pairs_0.z, pairs_0.w), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_up_w0[u * 2u].y, in_up_w0[u * 2u + 1u].y, 0u, low, high), column_of(pairs_1.x, pairs_1.y), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_up_w0[u * 2u].y, in_up_w0[u * 2u + 1u].y, 8u, low, high), column_of(pairs_1.z, pairs_1.w), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_up_w0[u * 2u].z, in_up_w0[u * 2u + 1u].z, 0u, low, high), column_of(pairs_2.x, pairs_2.y), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_up_w0[u * 2u].z, in_up_w0[u * 2u + 1u].z, 8u, low, high), column_of(pairs_2.z, pairs_2.w), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_up_w0[u * 2u].w, in_up_w0[u * 2u + 1u].w, 0u, low, high), column_of(pairs_3.x, pairs_3.y), part_sums);
          part_sums = coopMatMulAdd(rows_of_words(in_up_w0[u * 2u].w, in_up_w0[u * 2u + 1u].w, 8u, low, high), column_of(pairs_3.z, pairs_3.w), part_sums);
          float scale_0 = subgroupShuffle(own_scales[0u], lane_row * 4u + u * 2u);
          sums[0] = fma(part_sums[0], scale_0, sums[0]);
          sums[1] = fma(part_sums[1], scale_0, sums[1]);
          float scale_2 = subgroupShuffle(own_scales[0u], lane_row * 4u + u * 2u + 1u);
          sums[2] = fma(part_sums[2], scale_2, sums[2]);
          sums[3] = fma(part_sums[3], scale_2, sums[3]);
        }
      }
      if (lane_part == 0u) {
        uint at = 1024u + subgroup * 64u + tile * 16u + lane_row;
        row_parts[at] = sums[0];
        row_parts[at + 8u] = sums[2];
      }
    }
    first_row += 16u;
  }
  barrier();
  float v17_v = 0.0;
  float v31_v = 0.0;
  if (thread < 64u) {
    [[unroll]] for (uint i = 0u; i < 16u; ++i) v17_v += row_parts[i * 64u + thread];
    [[unroll]] for (uint i = 0u; i < 16u; ++i) v31_v += row_parts[1024u + i * 64u + thread];
  }
  if (inside) {
    precise float v18 = f16_sigmoid(v17_v);
    precise float v19 = v18 * v17_v;
    precise float out_y_v = v19 * v31_v;
    out_y.w[own_row] = uint16_t(f16x2_bits_native(vec2(out_y_v)));
  }
}
