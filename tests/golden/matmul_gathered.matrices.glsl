#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "rows of a table before a product and added to it": gather, dot, gather, add
// tiles of 128 x 128, 32 at a time along the sum; 64 x 32 per subgroup of 32, in products of 16 x 16 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint items;  // tiles of all matrices
  uint row;    // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_ids;  // %1 : i32[2048]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_table;  // %0 : f16[500, 1024]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_w;  // %3 : f16[1024, 1024]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uint w[]; } in_places;  // %6 : i32[2048]
layout(set = 0, binding = 4) readonly buffer Buffer4 { uvec2 w[]; } in_positions;  // %5 : f16[3000, 1024]
layout(set = 0, binding = 5) writeonly buffer Buffer5 { uvec2 w[]; } out_y;  // %8 : f16[2048, 1024]

// With the device's own conversions (rung T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uvec4 in_table_e_tile[640];
shared uvec4 in_w_tile[544];
shared vec4 v4_v_strips[1152];

// One element of a factor.
void in_table_e_factor_element(float in_table_e, out float factor) {
  factor = in_table_e;
}

// One element of the results.
void result_element(float in_positions, float v4_v, out float out_y_result) {
  precise float out_y = v4_v + in_positions;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.items) return;
  uint lane = gl_LocalInvocationID.x;
  uint strip = workgroup / 64u;
  uint in_strip = workgroup % 64u;
  uint tile_m = strip * 8u + in_strip % 8u;
  uint tile_n = in_strip / 8u;
  uint subgroup = gl_SubgroupID;
  uint subgroup_m = subgroup / 4u;
  uint subgroup_n = subgroup % 4u;
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> v4_v_sums[8];
  [[unroll]] for (uint i = 0u; i < 8u; ++i) v4_v_sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  uvec4 in_w_w0[2];
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 256u + lane;
    uint row = unit % 16u;
    uint column = unit / 16u;
    uint item = tile_n * 16u + row;
    uint k = column;
    in_w_w0[u] = in_w.w[item + k * 128u];
  }
  for (uint step = 0u; step < 32u; ++step) {
    for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 256u + lane;
      uint row = unit / 4u;
      uint column = unit % 4u;
      uint m = tile_m * 128u + row;
      uint item = step * 4u + column;
      int in_ids_e = int(in_ids.w[m]);
      uint in_ids_e_index = min(uint(max(in_ids_e, 0)), 499u);
      uvec4 in_table_e_w0 = in_table.w[item + in_ids_e_index * 128u];
      vec4 in_table_e_0 = vec4(f16x2_values_native(in_table_e_w0.x), f16x2_values_native(in_table_e_w0.y));
      vec4 factor_0;
      in_table_e_factor_element(in_table_e_0[0], factor_0[0]);
      in_table_e_factor_element(in_table_e_0[1], factor_0[1]);
      in_table_e_factor_element(in_table_e_0[2], factor_0[2]);
      in_table_e_factor_element(in_table_e_0[3], factor_0[3]);
      vec4 in_table_e_1 = vec4(f16x2_values_native(in_table_e_w0.z), f16x2_values_native(in_table_e_w0.w));
      vec4 factor_1;
      in_table_e_factor_element(in_table_e_1[0], factor_1[0]);
      in_table_e_factor_element(in_table_e_1[1], factor_1[1]);
      in_table_e_factor_element(in_table_e_1[2], factor_1[2]);
      in_table_e_factor_element(in_table_e_1[3], factor_1[3]);
      in_table_e_tile[row * 5u + column] = uvec4(f16x2_bits_native(factor_0.xy), f16x2_bits_native(factor_0.zw), f16x2_bits_native(factor_1.xy), f16x2_bits_native(factor_1.zw));
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 256u + lane;
      uint row = unit % 16u;
      uint column = unit / 16u;
      uint item = tile_n * 16u + row;
      uint k = step * 32u + column;
      in_w_tile[column * 17u + row] = in_w_w0[u];
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 32u - 1u);
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 256u + lane;
      uint row = unit % 16u;
      uint column = unit / 16u;
      uint item = tile_n * 16u + row;
      uint k = next * 32u + column;
      in_w_w0[u] = in_w.w[item + k * 128u];
    }
    [[unroll]] for (uint k = 0u; k < 32u; k += 16u) {
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_table_e_factor[4];
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        coopMatLoad(in_table_e_factor[i], in_table_e_tile, (subgroup_m * 64u + i * 16u) * 5u + k / 8u, 5u, gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> in_w_factor;
        coopMatLoad(in_w_factor, in_w_tile, (k) * 17u + (subgroup_n * 32u + j * 16u) / 8u, 17u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
          v4_v_sums[i * 2u + j] = coopMatMulAdd(in_table_e_factor[i], in_w_factor, v4_v_sums[i * 2u + j]);
        }
      }
    }
    barrier();
  }
  uint own = subgroup * 144u;
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    coopMatStore(v4_v_sums[i * 2u + 0u], v4_v_strips, own + 0u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(v4_v_sums[i * 2u + 1u], v4_v_strips, own + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    for (uint g = gl_SubgroupInvocationID; g < 128u; g += 32u) {
      uint row = g / 8u;
      uint column = g % 8u;
      uint in_tile = subgroup_m * 64u + i * 16u + row;
      uint m = tile_m * 128u + in_tile;
      uint item = tile_n * 32u + subgroup_n * 8u + column;
      vec4 v4_v_four = v4_v_strips[own + row * 9u + column];
      int in_places_e = int(in_places.w[m]);
      uint in_places_e_index = min(uint(max(in_places_e, 0)), 2999u);
      uvec2 in_positions_w0 = in_positions.w[item + in_places_e_index * 256u];
      vec4 in_positions_0 = vec4(f16x2_values_native(in_positions_w0.x), f16x2_values_native(in_positions_w0.y));
      vec4 out_y_0;
      result_element(in_positions_0[0], v4_v_four.x, out_y_0[0]);
      result_element(in_positions_0[1], v4_v_four.y, out_y_0[1]);
      result_element(in_positions_0[2], v4_v_four.z, out_y_0[2]);
      result_element(in_positions_0[3], v4_v_four.w, out_y_0[3]);
      out_y.w[m * 256u + item] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  }
}
