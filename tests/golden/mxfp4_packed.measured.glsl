#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a long vector times weights of MXFP4": reshape, iota, mul, shift_right, bit_and, reshape, cast, decode_float4_e2m1fn, ... 20 ops in all
// 16 rows per workgroup, 1 tile one after another, whose fragments lanes make; 16 subgroups share the columns, 256 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f16[1, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weights;  // %1 : u8[4096, 2048]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_powers;  // %14 : u8[4096, 128]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint16_t w[]; } out_y;  // %24 : f16[1, 4096]

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

shared float row_parts[256];

// Two codes of float4_e2m1fn as f16: the sign, and exponent and fraction where those of an f16 end, 1 / 2^14 of the number.
uint numbers_of(uint word, uint sign_left, uint left, uint right) {
  return ((word << sign_left) & 0x80008000u) | ((word << left >> right) & 0x0e000e00u);
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
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> rows_of_words(uint first, uint second, uint shift) {
  first >>= shift;
  second >>= shift;
  return rows_of(numbers_of(first, 12u, 9u, 0u), numbers_of(first, 8u, 5u, 0u),
                 numbers_of(second, 12u, 9u, 0u), numbers_of(second, 8u, 5u, 0u));
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint subgroup = gl_SubgroupID;
  uint lane_row = gl_SubgroupInvocationID / 4u, lane_part = gl_SubgroupInvocationID % 4u;
  uint first_row = min(workgroup * 16u, p.chunks - 16u);
  uvec4 in_weights_w0[4];
  uint next_scales[4];
  uint next_shifts[4];
  {
    uint k_slice = subgroup * 2u;
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = first_row + u % 2u * 8u + lane_row;
      uint column = (k_slice + u / 2u) * 4u + lane_part;
      in_weights_w0[u] = in_weights.w[row * 128u + column];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint i = u * 4u + lane_part;  // of groups, rows and steps
      uint row = first_row + i / 4u % 2u * 8u + lane_row;
      uint column = (k_slice + i / 8u) * 4u + i % 4u;
      uint in_powers_i = row * 128u + column;
      next_scales[u] = in_powers.w[in_powers_i >> 2];
      next_shifts[u] = (in_powers_i & 3u) * 8u;
    }
  }
  // Each column has the elements of the vector that share a scale.
  uint of_group = lane_row % 4u == lane_part ? 0xffffffffu : 0u;
  uint own_row = workgroup * 16u + thread;
  bool inside = thread < 16u && own_row < p.chunks;
  own_row = min(min(own_row, workgroup * 16u + 15u), p.chunks - 1u);
  for (uint tile = 0u; tile < 1u; ++tile) {
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    for (uint round = 0u; round < 1u; ++round) {
      uint k_slice = (round * 16u + subgroup) * 2u;
      float own_scales[4];
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        uint in_powers_e = u8x4_values(next_scales[u] >> next_shifts[u])[0];
        uint v15 = in_powers_e;
        uint v16 = float8_e8m0fnu_bits(v15);
        precise float v17 = uintBitsToFloat(v16);
        precise float v18 = f16_round_native(p.chunks >> 31, v17);
        own_scales[u] = v18 * 16384.0;
      }
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint column = (k_slice + u) * 4u + lane_part;
        coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
        uvec4 in_a_w0 = in_a.w[column * 4u];
        uvec4 in_a_w1 = in_a.w[column * 4u + 1u];
        uvec4 in_a_w2 = in_a.w[column * 4u + 2u];
        uvec4 in_a_w3 = in_a.w[column * 4u + 3u];
        uvec4 pairs_0 = uvec4((in_a_w0.x & 0xffffu) | (in_a_w0.z << 16), (in_a_w0.x >> 16) | (in_a_w0.z & 0xffff0000u), (in_a_w0.y & 0xffffu) | (in_a_w0.w << 16), (in_a_w0.y >> 16) | (in_a_w0.w & 0xffff0000u)) & of_group;
        uvec4 pairs_1 = uvec4((in_a_w1.x & 0xffffu) | (in_a_w1.z << 16), (in_a_w1.x >> 16) | (in_a_w1.z & 0xffff0000u), (in_a_w1.y & 0xffffu) | (in_a_w1.w << 16), (in_a_w1.y >> 16) | (in_a_w1.w & 0xffff0000u)) & of_group;
        uvec4 pairs_2 = uvec4((in_a_w2.x & 0xffffu) | (in_a_w2.z << 16), (in_a_w2.x >> 16) | (in_a_w2.z & 0xffff0000u), (in_a_w2.y & 0xffffu) | (in_a_w2.w << 16), (in_a_w2.y >> 16) | (in_a_w2.w & 0xffff0000u)) & of_group;
        uvec4 pairs_3 = uvec4((in_a_w3.x & 0xffffu) | (in_a_w3.z << 16), (in_a_w3.x >> 16) | (in_a_w3.z & 0xffff0000u), (in_a_w3.y & 0xffffu) | (in_a_w3.w << 16), (in_a_w3.y >> 16) | (in_a_w3.w & 0xffff0000u)) & of_group;
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].x, in_weights_w0[u * 2u + 1u].x, 0u), column_of(pairs_0.x, pairs_0.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].x, in_weights_w0[u * 2u + 1u].x, 8u), column_of(pairs_0.z, pairs_0.w), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].y, in_weights_w0[u * 2u + 1u].y, 0u), column_of(pairs_1.x, pairs_1.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].y, in_weights_w0[u * 2u + 1u].y, 8u), column_of(pairs_1.z, pairs_1.w), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].z, in_weights_w0[u * 2u + 1u].z, 0u), column_of(pairs_2.x, pairs_2.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].z, in_weights_w0[u * 2u + 1u].z, 8u), column_of(pairs_2.z, pairs_2.w), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].w, in_weights_w0[u * 2u + 1u].w, 0u), column_of(pairs_3.x, pairs_3.y), part_sums);
        part_sums = coopMatMulAdd(rows_of_words(in_weights_w0[u * 2u].w, in_weights_w0[u * 2u + 1u].w, 8u), column_of(pairs_3.z, pairs_3.w), part_sums);
        float scale_0 = subgroupShuffle(own_scales[u * 2u], lane_row * 4u + lane_part * 2u % 4u);
        sums[0] = fma(part_sums[0], scale_0, sums[0]);
        float scale_1 = subgroupShuffle(own_scales[u * 2u], lane_row * 4u + (lane_part * 2u + 1u) % 4u);
        sums[1] = fma(part_sums[1], scale_1, sums[1]);
        float scale_2 = subgroupShuffle(own_scales[u * 2u + 1u], lane_row * 4u + lane_part * 2u % 4u);
        sums[2] = fma(part_sums[2], scale_2, sums[2]);
        float scale_3 = subgroupShuffle(own_scales[u * 2u + 1u], lane_row * 4u + (lane_part * 2u + 1u) % 4u);
        sums[3] = fma(part_sums[3], scale_3, sums[3]);
      }
    }
    vec2 of_rows = vec2(sums[0] + sums[1], sums[2] + sums[3]);
    of_rows += subgroupShuffleXor(of_rows, 1u);
    if (lane_part == 0u) {
      uint at = subgroup * 16u + tile * 16u + lane_row;
      row_parts[at] = of_rows.x;
      row_parts[at + 8u] = of_rows.y;
    }
    first_row += 16u;
  }
  barrier();
  float out_y_v = 0.0;
  if (thread < 16u) {
    [[unroll]] for (uint i = 0u; i < 16u; ++i) out_y_v += row_parts[i * 16u + thread];
  }
  if (inside) {
    out_y.w[own_row] = uint16_t(f16x2_bits_native(vec2(out_y_v)));
  }
}
