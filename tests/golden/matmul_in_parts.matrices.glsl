#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "matmul in parts": dot, add
// tiles of 64 x 64, 64 at a time along the sum; 32 x 32 per subgroup of 32, in products of 16 x 16 x 16; 16 workgroups share a tile, dispatch 1 of 2
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // parts of tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[120, 8192]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_w;  // %1 : f16[8192, 256]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec2 w[]; } in_bias;  // %3 : f16[256]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %4 : f16[120, 256]
layout(set = 0, binding = 4) buffer Buffer4 { uvec4 w[]; } partials;  // of the workgroups that share a tile

shared uvec4 in_x_e_tile[576];
shared uvec4 in_w_tile[576];
shared vec4 v2_v_subtiles[576];

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint part = workgroup / 8u;
  workgroup = workgroup % 8u;
  uint tile_m = workgroup % 2u;
  uint tile_n = workgroup / 2u;
  uint subgroup = gl_SubgroupID;
  uint subgroup_m = subgroup / 2u;
  uint subgroup_n = subgroup % 2u;
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> v2_v_sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) v2_v_sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  uint first_step = part * 8u;
  uint end = min(first_step + 8u, 128u);
  uvec4 in_x_e_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint row = u * 16u + thread / 8u;
    uint column = thread % 8u;
    uint m = min(tile_m * 64u + row, 120u - 1u);
    uint chunk = first_step * 8u + column;
    in_x_e_w0[u] = in_x.w[m * 1024u + chunk];
  }
  uvec4 in_w_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint column = u * 16u + thread / 8u;
    uint row = thread % 8u;
    uint chunk = tile_n * 8u + row;
    uint k = first_step * 64u + column;
    in_w_w0[u] = in_w.w[chunk + k * 32u];
  }
  for (uint step = first_step; step < end; ++step) {
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = u * 16u + thread / 8u;
      uint column = thread % 8u;
      uint m = min(tile_m * 64u + row, 120u - 1u);
      uint chunk = step * 8u + column;
      in_x_e_tile[row * 9u + column] = in_x_e_w0[u];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint column = u * 16u + thread / 8u;
      uint row = thread % 8u;
      uint chunk = tile_n * 8u + row;
      uint k = step * 64u + column;
      in_w_tile[column * 9u + row] = in_w_w0[u];
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, end - 1u);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = u * 16u + thread / 8u;
      uint column = thread % 8u;
      uint m = min(tile_m * 64u + row, 120u - 1u);
      uint chunk = next * 8u + column;
      in_x_e_w0[u] = in_x.w[m * 1024u + chunk];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint column = u * 16u + thread / 8u;
      uint row = thread % 8u;
      uint chunk = tile_n * 8u + row;
      uint k = next * 64u + column;
      in_w_w0[u] = in_w.w[chunk + k * 32u];
    }
    [[unroll]] for (uint k = 0u; k < 64u; k += 16u) {
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_x_e_factor[2];
      [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        coopMatLoad(in_x_e_factor[i], in_x_e_tile, (subgroup_m * 32u + i * 16u) * 9u + k / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> in_w_factor;
        coopMatLoad(in_w_factor, in_w_tile, (k) * 9u + (subgroup_n * 32u + j * 16u) / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
          v2_v_sums[i * 2u + j] = coopMatMulAdd(in_x_e_factor[i], in_w_factor, v2_v_sums[i * 2u + j]);
        }
      }
    }
    barrier();
  }
  uint own = subgroup * 144u;
  [[unroll]] for (uint i = 0u; i < 2u; ++i) {
    coopMatStore(v2_v_sums[i * 2u + 0u], v2_v_subtiles, own + 0u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(v2_v_sums[i * 2u + 1u], v2_v_subtiles, own + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    for (uint g = gl_SubgroupInvocationID; g < 128u; g += 32u) {
      uint row = g / 8u;
      uint column = g % 8u;
      uint in_tile = subgroup_m * 32u + i * 16u + row;
      uint m = tile_m * 64u + in_tile;
      uint chunk = tile_n * 16u + subgroup_n * 8u + column;
      vec4 v2_v_four = v2_v_subtiles[own + row * 9u + column];
      if (m < 120u) {
        partials.w[part * 7680u + m * 64u + chunk] = floatBitsToUint(v2_v_four);
      }
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  }
}
