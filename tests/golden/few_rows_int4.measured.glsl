#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "four rows times int4 weights with a zero point": reshape, iota, mul, shift_right, bit_and, reshape, cast, sub, ... 13 ops in all
// 8 rows and 16 positions of weights per workgroup, whose fragments lanes make; 8 subgroups share the sum, 128 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[4, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weights;  // %1 : u8[4096, 2048]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_weights_scale;  // %14 : f16[4096, 32, 1]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %18 : f16[4, 4096]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared float out_y_v_subtiles[1024];  // of each subgroup, row by row

// One element of the results.
void result_element(float out_y_v, out float out_y_result) {
  out_y_result = out_y_v;
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

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint tile_m = workgroup % 1u;
  uint tile_n = workgroup / 1u;
  uint subgroup = gl_SubgroupID;
  uint lane_row = gl_SubgroupInvocationID / 4u, lane_part = gl_SubgroupInvocationID % 4u;
  coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> out_y_v_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
  // Powers of 2, and what of the numbers is flipped.
  uint v15_words_power_0 = 0x64006400u + (p.chunks & 0x80000000u);
  uint v15_words_power_4 = 0x64006400u + (p.chunks & 0x80000000u);
  uvec4 in_weights_w0[4];
  float in_weights_scale_e_ahead[4];
  [[unroll]] for (uint ahead = 0u; ahead < 2u; ++ahead) {
    uint next = min(subgroup + ahead * 8u, 32u - 1u);
    [[unroll]] for (uint r = 0u; r < 2u; ++r) {
      uint u = ahead * 2u + r;
      uint n = tile_n * 16u + r * 8u + lane_row;
      uint chunk = next * 4u + lane_part;
      in_weights_w0[u] = in_weights.w[n * 128u + chunk];
      uint q = chunk / 4u;
      uint in_weights_scale_i = n * 32u + q;
      float in_weights_scale_e = f16x2_values_native(in_weights_scale.w[in_weights_scale_i >> 1] >> ((in_weights_scale_i & 1u) * 16u))[0];
      in_weights_scale_e_ahead[u] = in_weights_scale_e;
    }
  }
  for (uint first = subgroup; first < 32u; first += 16u) {
    [[unroll]] for (uint ahead = 0u; ahead < 2u; ++ahead) {
      uint step = first + ahead * 8u;
      if (step < 32u) {
        uint in_x_e_words[16];
        {
          uint m = min(tile_m * 8u + lane_row, 4u - 1u);
          uint chunk = step * 4u + lane_part;
          uvec4 in_x_e_w0 = in_x.w[m * 512u + chunk * 4u];
          uvec4 in_x_e_w1 = in_x.w[m * 512u + chunk * 4u + 1u];
          uvec4 in_x_e_w2 = in_x.w[m * 512u + chunk * 4u + 2u];
          uvec4 in_x_e_w3 = in_x.w[m * 512u + chunk * 4u + 3u];
          uint neighbours[16] = uint[16](in_x_e_w0.x, in_x_e_w0.y, in_x_e_w0.z, in_x_e_w0.w, in_x_e_w1.x, in_x_e_w1.y, in_x_e_w1.z, in_x_e_w1.w, in_x_e_w2.x, in_x_e_w2.y, in_x_e_w2.z, in_x_e_w2.w, in_x_e_w3.x, in_x_e_w3.y, in_x_e_w3.z, in_x_e_w3.w);
          in_x_e_words[0u] = (neighbours[0u] & 0xffffu) | (neighbours[2u] << 16);
          in_x_e_words[1u] = (neighbours[0u] >> 16) | (neighbours[2u] & 0xffff0000u);
          in_x_e_words[2u] = (neighbours[1u] & 0xffffu) | (neighbours[3u] << 16);
          in_x_e_words[3u] = (neighbours[1u] >> 16) | (neighbours[3u] & 0xffff0000u);
          in_x_e_words[4u] = (neighbours[4u] & 0xffffu) | (neighbours[6u] << 16);
          in_x_e_words[5u] = (neighbours[4u] >> 16) | (neighbours[6u] & 0xffff0000u);
          in_x_e_words[6u] = (neighbours[5u] & 0xffffu) | (neighbours[7u] << 16);
          in_x_e_words[7u] = (neighbours[5u] >> 16) | (neighbours[7u] & 0xffff0000u);
          in_x_e_words[8u] = (neighbours[8u] & 0xffffu) | (neighbours[10u] << 16);
          in_x_e_words[9u] = (neighbours[8u] >> 16) | (neighbours[10u] & 0xffff0000u);
          in_x_e_words[10u] = (neighbours[9u] & 0xffffu) | (neighbours[11u] << 16);
          in_x_e_words[11u] = (neighbours[9u] >> 16) | (neighbours[11u] & 0xffff0000u);
          in_x_e_words[12u] = (neighbours[12u] & 0xffffu) | (neighbours[14u] << 16);
          in_x_e_words[13u] = (neighbours[12u] >> 16) | (neighbours[14u] & 0xffff0000u);
          in_x_e_words[14u] = (neighbours[13u] & 0xffffu) | (neighbours[15u] << 16);
          in_x_e_words[15u] = (neighbours[13u] >> 16) | (neighbours[15u] & 0xffff0000u);
        }
        uint v15_words[32];
        [[unroll]] for (uint r = 0u; r < 2u; ++r) {
          uint u = ahead * 2u + r;
          uint n = tile_n * 16u + r * 8u + lane_row;
          uint chunk = step * 4u + lane_part;
          f16vec2 v15_factor_scale = f16vec2(in_weights_scale_e_ahead[u]);
          v15_words[r * 16u + 0u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].x & 0x000f000fu) ^ v15_words_power_0), f16vec2(1.0hf), f16vec2(-1032.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 1u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].x & 0x00f000f0u) ^ v15_words_power_4), f16vec2(0.0625hf), f16vec2(-72.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 2u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].x >> 8u & 0x000f000fu) ^ v15_words_power_0), f16vec2(1.0hf), f16vec2(-1032.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 3u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].x >> 8u & 0x00f000f0u) ^ v15_words_power_4), f16vec2(0.0625hf), f16vec2(-72.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 4u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].y & 0x000f000fu) ^ v15_words_power_0), f16vec2(1.0hf), f16vec2(-1032.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 5u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].y & 0x00f000f0u) ^ v15_words_power_4), f16vec2(0.0625hf), f16vec2(-72.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 6u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].y >> 8u & 0x000f000fu) ^ v15_words_power_0), f16vec2(1.0hf), f16vec2(-1032.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 7u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].y >> 8u & 0x00f000f0u) ^ v15_words_power_4), f16vec2(0.0625hf), f16vec2(-72.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 8u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].z & 0x000f000fu) ^ v15_words_power_0), f16vec2(1.0hf), f16vec2(-1032.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 9u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].z & 0x00f000f0u) ^ v15_words_power_4), f16vec2(0.0625hf), f16vec2(-72.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 10u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].z >> 8u & 0x000f000fu) ^ v15_words_power_0), f16vec2(1.0hf), f16vec2(-1032.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 11u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].z >> 8u & 0x00f000f0u) ^ v15_words_power_4), f16vec2(0.0625hf), f16vec2(-72.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 12u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].w & 0x000f000fu) ^ v15_words_power_0), f16vec2(1.0hf), f16vec2(-1032.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 13u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].w & 0x00f000f0u) ^ v15_words_power_4), f16vec2(0.0625hf), f16vec2(-72.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 14u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].w >> 8u & 0x000f000fu) ^ v15_words_power_0), f16vec2(1.0hf), f16vec2(-1032.0hf)) * v15_factor_scale);
          v15_words[r * 16u + 15u] = packFloat2x16(fma(unpackFloat2x16((in_weights_w0[u].w >> 8u & 0x00f000f0u) ^ v15_words_power_4), f16vec2(0.0625hf), f16vec2(-72.0hf)) * v15_factor_scale);
        }
        [[unroll]] for (uint w = 0u; w < 16u; w += 2u) {
          coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> in_x_e_factor = column_of(in_x_e_words[w], in_x_e_words[w + 1u]);
          out_y_v_sums = coopMatMulAdd(rows_of(v15_words[w], v15_words[w + 1u], v15_words[w + 16u], v15_words[w + 17u]), in_x_e_factor, out_y_v_sums);
        }
        uint next = min(step + 16u, 32u - 1u);
        [[unroll]] for (uint r = 0u; r < 2u; ++r) {
          uint u = ahead * 2u + r;
          uint n = tile_n * 16u + r * 8u + lane_row;
          uint chunk = next * 4u + lane_part;
          in_weights_w0[u] = in_weights.w[n * 128u + chunk];
          uint q = chunk / 4u;
          uint in_weights_scale_i = n * 32u + q;
          float in_weights_scale_e = f16x2_values_native(in_weights_scale.w[in_weights_scale_i >> 1] >> ((in_weights_scale_i & 1u) * 16u))[0];
          in_weights_scale_e_ahead[u] = in_weights_scale_e;
        }
      }
    }
  }
  coopMatStore(out_y_v_sums, out_y_v_subtiles, subgroup * 128u, 16u, gl_CooperativeMatrixLayoutColumnMajor);
  barrier();
  for (uint unit = thread; unit < 32u; unit += 256u) {
    uint row = unit / 4u;
    uint m = tile_m * 8u + row;
    uint chunk = tile_n * 4u + unit % 4u;
    uint at = unit * 4u;
    float out_y_v_0 = 0.0;
    float out_y_v_1 = 0.0;
    float out_y_v_2 = 0.0;
    float out_y_v_3 = 0.0;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
      out_y_v_0 += out_y_v_subtiles[i * 128u + at + 0u];
      out_y_v_1 += out_y_v_subtiles[i * 128u + at + 1u];
      out_y_v_2 += out_y_v_subtiles[i * 128u + at + 2u];
      out_y_v_3 += out_y_v_subtiles[i * 128u + at + 3u];
    }
    if (m < 4u) {
      vec4 out_y_0;
      result_element(out_y_v_0, out_y_0[0]);
      result_element(out_y_v_1, out_y_0[1]);
      result_element(out_y_v_2, out_y_0[2]);
      result_element(out_y_v_3, out_y_0[3]);
      out_y.w[m * 1024u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
  }
}
