#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "matmul of bytes, scaled": cast, cast, dot, cast, mul, cast
// tiles of 64 x 128, 128 at a time along the sum; 32 x 32 per subgroup of 32, in products of 16 x 16 x 32
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } in_x;  // %0 : i8[1000, 1024]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_w;  // %2 : i8[1024, 768]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_scale;  // %6 : f32[768]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %8 : f16[1000, 768]

uvec4 u8x4_values(uint word) {
  return (uvec4(word) >> uvec4(0u, 8u, 16u, 24u)) & 0xffu;
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uvec2 v1_tile[1152];
shared uint v3_tile[4608];
shared ivec4 v4_v_subtiles[1152];

// One element of the results.
void result_element(float in_scale, int v4_v, out float out_y_result) {
  precise float v5 = float(v4_v);
  precise float v7 = v5 * in_scale;
  precise float out_y = v7;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint swizzle = workgroup / 48u;
  uint in_swizzle = workgroup % 48u;
  uint tile_m = swizzle * 8u + in_swizzle % 8u;
  uint tile_n = in_swizzle / 8u;
  uint subgroup = gl_SubgroupID;
  uint subgroup_m = subgroup / 4u;
  uint subgroup_n = subgroup % 4u;
  coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> v4_v_sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) v4_v_sums[i] = coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0);
  uvec2 in_x_e_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint row = u * 16u + thread / 16u;
    uint column = thread % 16u;
    uint m = min(tile_m * 64u + row, 1000u - 1u);
    uint chunk = column;
    in_x_e_w0[u] = in_x.w[m * 128u + chunk];
  }
  uvec2 in_w_w0[8];
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 256u + thread;
    uint row = unit / 32u % 4u * 4u + unit % 4u;
    uint column = unit / 128u * 8u + unit / 4u % 8u;
    uint chunk = tile_n * 16u + row;
    [[unroll]] for (uint d = 0u; d < 4u; ++d) {
      uint k = column * 4u + d;
      in_w_w0[u * 4u + d] = in_w.w[chunk + k * 96u];
    }
  }
  for (uint step = 0u; step < 8u; ++step) {
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = u * 16u + thread / 16u;
      uint column = thread % 16u;
      uint m = min(tile_m * 64u + row, 1000u - 1u);
      uint chunk = step * 16u + column;
      v1_tile[row * 18u + column] = in_x_e_w0[u];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 256u + thread;
      uint row = unit / 32u % 4u * 4u + unit % 4u;
      uint column = unit / 128u * 8u + unit / 4u % 8u;
      uint chunk = tile_n * 16u + row;
      ivec4 words_0 = ivec4(0);
      ivec4 words_1 = ivec4(0);
      [[unroll]] for (uint d = 0u; d < 4u; ++d) {
        uint k = step * 128u + column * 4u + d;
        words_0 |= ivec4(u8x4_values(in_w_w0[u * 4u + d].x)) << (d * 8u);
        words_1 |= ivec4(u8x4_values(in_w_w0[u * 4u + d].y)) << (d * 8u);
      }
      v3_tile[(row * 8u + 0u) * 36u + column] = uint(words_0.x);
      v3_tile[(row * 8u + 1u) * 36u + column] = uint(words_0.y);
      v3_tile[(row * 8u + 2u) * 36u + column] = uint(words_0.z);
      v3_tile[(row * 8u + 3u) * 36u + column] = uint(words_0.w);
      v3_tile[(row * 8u + 4u) * 36u + column] = uint(words_1.x);
      v3_tile[(row * 8u + 5u) * 36u + column] = uint(words_1.y);
      v3_tile[(row * 8u + 6u) * 36u + column] = uint(words_1.z);
      v3_tile[(row * 8u + 7u) * 36u + column] = uint(words_1.w);
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 8u - 1u);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = u * 16u + thread / 16u;
      uint column = thread % 16u;
      uint m = min(tile_m * 64u + row, 1000u - 1u);
      uint chunk = next * 16u + column;
      in_x_e_w0[u] = in_x.w[m * 128u + chunk];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 256u + thread;
      uint row = unit / 32u % 4u * 4u + unit % 4u;
      uint column = unit / 128u * 8u + unit / 4u % 8u;
      uint chunk = tile_n * 16u + row;
      [[unroll]] for (uint d = 0u; d < 4u; ++d) {
        uint k = next * 128u + column * 4u + d;
        in_w_w0[u * 4u + d] = in_w.w[chunk + k * 96u];
      }
    }
    [[unroll]] for (uint k = 0u; k < 128u; k += 32u) {
      coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA> v1_factor[2];
      [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        coopMatLoad(v1_factor[i], v1_tile, (subgroup_m * 32u + i * 16u) * 18u + k / 8u, 18u, gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        coopmat<int8_t, gl_ScopeSubgroup, 32, 16, gl_MatrixUseB> v3_factor;
        coopMatLoad(v3_factor, v3_tile, (subgroup_n * 32u + j * 16u) * 36u + k / 4u, 36u, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
          v4_v_sums[i * 2u + j] = coopMatMulAdd(v1_factor[i], v3_factor, v4_v_sums[i * 2u + j]);
        }
      }
    }
    barrier();
  }
  uint own = subgroup * 144u;
  uvec4 in_scale_w0[8];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint g = gl_SubgroupInvocationID + u * 32u;
    uint row = g / 8u;
    uint column = g % 8u;
    uint in_tile = subgroup_m * 32u + row;
    uint m = min(tile_m * 64u + in_tile, 1000u - 1u);
    uint chunk = tile_n * 32u + subgroup_n * 8u + column;
    in_scale_w0[u] = in_scale.w[chunk];
  }
  [[unroll]] for (uint i = 0u; i < 2u; ++i) {
    coopMatStore(v4_v_sums[i * 2u + 0u], v4_v_subtiles, own + 0u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(v4_v_sums[i * 2u + 1u], v4_v_subtiles, own + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    if (i + 1u < 2u) {
      uint next = i + 1u;
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        uint g = gl_SubgroupInvocationID + u * 32u;
        uint row = g / 8u;
        uint column = g % 8u;
        uint in_tile = subgroup_m * 32u + next * 16u + row;
        uint m = min(tile_m * 64u + in_tile, 1000u - 1u);
        uint chunk = tile_n * 32u + subgroup_n * 8u + column;
        in_scale_w0[next % 2u * 4u + u] = in_scale.w[chunk];
      }
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint g = gl_SubgroupInvocationID + u * 32u;
      uint row = g / 8u;
      uint column = g % 8u;
      uint in_tile = subgroup_m * 32u + i * 16u + row;
      uint m = tile_m * 64u + in_tile;
      uint chunk = tile_n * 32u + subgroup_n * 8u + column;
      ivec4 v4_v_four = v4_v_subtiles[own + row * 9u + column];
      if (m < 1000u) {
        vec4 in_scale_0 = uintBitsToFloat(in_scale_w0[i % 2u * 4u + u]);
        vec4 out_y_0;
        result_element(in_scale_0[0], v4_v_four.x, out_y_0[0]);
        result_element(in_scale_0[1], v4_v_four.y, out_y_0[1]);
        result_element(in_scale_0[2], v4_v_four.z, out_y_0[2]);
        result_element(in_scale_0[3], v4_v_four.w, out_y_0[3]);
        out_y.w[m * 192u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  }
}
