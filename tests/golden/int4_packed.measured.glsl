#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a long vector times int4 weights, and a sigmoid": reshape, iota, mul, shift_right, bit_and, reshape, cast, bit_xor, ... 19 ops in all
// 16 rows per workgroup, 1 tile one after another, whose fragments lanes make; 16 subgroups share the columns, 256 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f16[1, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weights;  // %1 : u8[4096, 2048]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_scale;  // %16 : f16[4096, 32]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint16_t w[]; } out_y;  // %25 : f16[1, 4096]

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

shared float row_parts[256];

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
  uint low = 0x64086408u + (p.chunks & 0x80000000u);
  uint high = 0x64806480u + (p.chunks & 0x80000000u);
  uint first_row = min(workgroup * 16u, p.chunks - 16u);
  uvec4 in_weights_w0[4];
  uint next_scales[1];
  uint next_shifts[1];
  {
    uint k_slice = subgroup * 2u;
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = first_row + u % 2u * 8u + lane_row;
      uint column = (k_slice + u / 2u) * 4u + lane_part;
      in_weights_w0[u] = in_weights.w[row * 128u + column];
    }
    [[unroll]] for (uint u = 0u; u < 1u; ++u) {
      uint i = u * 4u + lane_part;  // of groups, rows and steps
      uint row = first_row + i % 2u * 8u + lane_row;
      uint column = (k_slice + i / 2u) * 4u;
      uint q = column / 4u;
      uint in_scale_i = row * 32u + q;
      next_scales[u] = in_scale.w[in_scale_i >> 1];
      next_shifts[u] = (in_scale_i & 1u) * 16u;
    }
  }
  uint own_row = workgroup * 16u + thread;
  bool inside = thread < 16u && own_row < p.chunks;
  own_row = min(min(own_row, workgroup * 16u + 15u), p.chunks - 1u);
  for (uint tile = 0u; tile < 1u; ++tile) {
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    for (uint round = 0u; round < 1u; ++round) {
      uint k_slice = (round * 16u + subgroup) * 2u;
      float own_scales[1];
      [[unroll]] for (uint u = 0u; u < 1u; ++u) {
        float in_scale_e = f16x2_values_native(next_scales[u] >> next_shifts[u])[0];
        precise float v18 = in_scale_e * 0.03125;
        own_scales[u] = v18;
      }
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint column = (k_slice + u) * 4u + lane_part;
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
        uvec4 in_a_w0 = in_a.w[column * 4u];
        uvec4 in_a_w1 = in_a.w[column * 4u + 1u];
        uvec4 in_a_w2 = in_a.w[column * 4u + 2u];
        uvec4 in_a_w3 = in_a.w[column * 4u + 3u];
        uvec4 pairs_0 = uvec4((in_a_w0.x & 0xffffu) | (in_a_w0.z << 16), (in_a_w0.x >> 16) | (in_a_w0.z & 0xffff0000u), (in_a_w0.y & 0xffffu) | (in_a_w0.w << 16), (in_a_w0.y >> 16) | (in_a_w0.w & 0xffff0000u));
        uvec4 pairs_1 = uvec4((in_a_w1.x & 0xffffu) | (in_a_w1.z << 16), (in_a_w1.x >> 16) | (in_a_w1.z & 0xffff0000u), (in_a_w1.y & 0xffffu) | (in_a_w1.w << 16), (in_a_w1.y >> 16) | (in_a_w1.w & 0xffff0000u));
        uvec4 pairs_2 = uvec4((in_a_w2.x & 0xffffu) | (in_a_w2.z << 16), (in_a_w2.x >> 16) | (in_a_w2.z & 0xffff0000u), (in_a_w2.y & 0xffffu) | (in_a_w2.w << 16), (in_a_w2.y >> 16) | (in_a_w2.w & 0xffff0000u));
        uvec4 pairs_3 = uvec4((in_a_w3.x & 0xffffu) | (in_a_w3.z << 16), (in_a_w3.x >> 16) | (in_a_w3.z & 0xffff0000u), (in_a_w3.y & 0xffffu) | (in_a_w3.w << 16), (in_a_w3.y >> 16) | (in_a_w3.w & 0xffff0000u));
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].x, in_weights_w0[u * 2u + 1u].x, 0u, low, high), column_of(pairs_0.x, pairs_0.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].x, in_weights_w0[u * 2u + 1u].x, 8u, low, high), column_of(pairs_0.z, pairs_0.w), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].y, in_weights_w0[u * 2u + 1u].y, 0u, low, high), column_of(pairs_1.x, pairs_1.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].y, in_weights_w0[u * 2u + 1u].y, 8u, low, high), column_of(pairs_1.z, pairs_1.w), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].z, in_weights_w0[u * 2u + 1u].z, 0u, low, high), column_of(pairs_2.x, pairs_2.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].z, in_weights_w0[u * 2u + 1u].z, 8u, low, high), column_of(pairs_2.z, pairs_2.w), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].w, in_weights_w0[u * 2u + 1u].w, 0u, low, high), column_of(pairs_3.x, pairs_3.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].w, in_weights_w0[u * 2u + 1u].w, 8u, low, high), column_of(pairs_3.z, pairs_3.w), part_sums);
        float scale_0 = subgroupShuffle(own_scales[0u], lane_row * 4u + u * 2u);
        sums[0] = fma(part_sums[0], scale_0, sums[0]);
        sums[1] = fma(part_sums[1], scale_0, sums[1]);
        float scale_2 = subgroupShuffle(own_scales[0u], lane_row * 4u + u * 2u + 1u);
        sums[2] = fma(part_sums[2], scale_2, sums[2]);
        sums[3] = fma(part_sums[3], scale_2, sums[3]);
      }
    }
    if (lane_part == 0u) {
      uint at = subgroup * 16u + tile * 16u + lane_row;
      row_parts[at] = sums[0];
      row_parts[at + 8u] = sums[2];
    }
    first_row += 16u;
  }
  barrier();
  float v24_v = 0.0;
  if (thread < 16u) {
    [[unroll]] for (uint i = 0u; i < 16u; ++i) v24_v += row_parts[i * 16u + thread];
  }
  if (inside) {
    precise float out_y_v = f16_sigmoid(v24_v);
    out_y.w[own_row] = uint16_t(f16x2_bits_native(vec2(out_y_v)));
  }
}
