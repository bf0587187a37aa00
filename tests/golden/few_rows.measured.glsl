#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "four rows times weights, a bias and a residual": permute, dot, add, add
// 8 rows and 16 positions of weights per workgroup, whose fragments lanes make; 16 subgroups share the sum, 64 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[4, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_w;  // %1 : f16[1000, 4096]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec2 w[]; } in_bias;  // %4 : f16[1000]
layout(set = 0, binding = 3) ALIASED readonly buffer Buffer3 { uvec2 w[]; } in_residual;  // %6 : f16[4, 1000]
layout(set = 0, binding = 4) ALIASED writeonly buffer Buffer4 { uvec2 w[]; } out_y;  // %7 : f16[4, 1000]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared float v3_v_subtiles[2048];  // of each subgroup, row by row

// One element of the results.
void result_element(float in_bias, float in_residual, float v3_v, out float out_y_result) {
  precise float v5 = v3_v + in_bias;
  precise float out_y = v5 + in_residual;
  out_y_result = out_y;
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
  coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> v3_v_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
  uvec4 in_w_w0[4];
  uvec4 in_w_w1[4];
  [[unroll]] for (uint ahead = 0u; ahead < 2u; ++ahead) {
    uint next = min(subgroup + ahead * 16u, 64u - 1u);
    [[unroll]] for (uint r = 0u; r < 2u; ++r) {
      uint u = ahead * 2u + r;
      uint n = min(tile_n * 16u + r * 8u + lane_row, 1000u - 1u);
      uint chunk = next * 4u + lane_part;
      in_w_w0[u] = in_w.w[n * 512u + chunk * 2u];
      in_w_w1[u] = in_w.w[n * 512u + chunk * 2u + 1u];
    }
  }
  for (uint first = subgroup; first < 64u; first += 32u) {
    [[unroll]] for (uint ahead = 0u; ahead < 2u; ++ahead) {
      uint step = first + ahead * 16u;
      if (step < 64u) {
        uint in_x_e_words[8];
        {
          uint m = min(tile_m * 8u + lane_row, 4u - 1u);
          uint chunk = step * 4u + lane_part;
          uvec4 in_x_e_w0 = in_x.w[m * 512u + chunk * 2u];
          uvec4 in_x_e_w1 = in_x.w[m * 512u + chunk * 2u + 1u];
          in_x_e_words[0u] = in_x_e_w0.x;
          in_x_e_words[1u] = in_x_e_w0.y;
          in_x_e_words[2u] = in_x_e_w0.z;
          in_x_e_words[3u] = in_x_e_w0.w;
          in_x_e_words[4u] = in_x_e_w1.x;
          in_x_e_words[5u] = in_x_e_w1.y;
          in_x_e_words[6u] = in_x_e_w1.z;
          in_x_e_words[7u] = in_x_e_w1.w;
        }
        uint in_w_words[16];
        [[unroll]] for (uint r = 0u; r < 2u; ++r) {
          uint u = ahead * 2u + r;
          uint n = min(tile_n * 16u + r * 8u + lane_row, 1000u - 1u);
          uint chunk = step * 4u + lane_part;
          in_w_words[r * 8u + 0u] = in_w_w0[u].x;
          in_w_words[r * 8u + 1u] = in_w_w0[u].y;
          in_w_words[r * 8u + 2u] = in_w_w0[u].z;
          in_w_words[r * 8u + 3u] = in_w_w0[u].w;
          in_w_words[r * 8u + 4u] = in_w_w1[u].x;
          in_w_words[r * 8u + 5u] = in_w_w1[u].y;
          in_w_words[r * 8u + 6u] = in_w_w1[u].z;
          in_w_words[r * 8u + 7u] = in_w_w1[u].w;
        }
        [[unroll]] for (uint w = 0u; w < 8u; w += 2u) {
          coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> in_x_e_factor = column_of(in_x_e_words[w], in_x_e_words[w + 1u]);
          v3_v_sums = coopMatMulAdd(rows_of(in_w_words[w], in_w_words[w + 1u], in_w_words[w + 8u], in_w_words[w + 9u]), in_x_e_factor, v3_v_sums);
        }
        uint next = min(step + 32u, 64u - 1u);
        [[unroll]] for (uint r = 0u; r < 2u; ++r) {
          uint u = ahead * 2u + r;
          uint n = min(tile_n * 16u + r * 8u + lane_row, 1000u - 1u);
          uint chunk = next * 4u + lane_part;
          in_w_w0[u] = in_w.w[n * 512u + chunk * 2u];
          in_w_w1[u] = in_w.w[n * 512u + chunk * 2u + 1u];
        }
      }
    }
  }
  coopMatStore(v3_v_sums, v3_v_subtiles, subgroup * 128u, 16u, gl_CooperativeMatrixLayoutColumnMajor);
  barrier();
  for (uint unit = thread; unit < 32u; unit += 512u) {
    uint row = unit / 4u;
    uint m = tile_m * 8u + row;
    uint chunk = tile_n * 4u + unit % 4u;
    uint at = unit * 4u;
    float v3_v_0 = 0.0;
    float v3_v_1 = 0.0;
    float v3_v_2 = 0.0;
    float v3_v_3 = 0.0;
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
      v3_v_0 += v3_v_subtiles[i * 128u + at + 0u];
      v3_v_1 += v3_v_subtiles[i * 128u + at + 1u];
      v3_v_2 += v3_v_subtiles[i * 128u + at + 2u];
      v3_v_3 += v3_v_subtiles[i * 128u + at + 3u];
    }
    if (m < 4u && chunk < 250u) {
      uvec2 in_bias_w0 = in_bias.w[chunk];
      uvec2 in_residual_w0 = in_residual.w[m * 250u + chunk];
      vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0.x), f16x2_values_native(in_bias_w0.y));
      vec4 in_residual_0 = vec4(f16x2_values_native(in_residual_w0.x), f16x2_values_native(in_residual_w0.y));
      vec4 out_y_0;
      result_element(in_bias_0[0], in_residual_0[0], v3_v_0, out_y_0[0]);
      result_element(in_bias_0[1], in_residual_0[1], v3_v_1, out_y_0[1]);
      result_element(in_bias_0[2], in_residual_0[2], v3_v_2, out_y_0[2]);
      result_element(in_bias_0[3], in_residual_0[3], v3_v_3, out_y_0[3]);
      out_y.w[m * 250u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
  }
}
