#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "few rows of a layer": permute, dot, add, erf
// tiles of 128 x 128, 64 at a time along the sum, which the workgroup multiplies as one; 4 workgroups share a tile, dispatch 1 of 2
layout(local_size_x_id = 0) in;
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);  // keep NaN and infinities of f32

layout(push_constant) uniform Sizes {
  uint chunks;  // parts of tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[1024, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weight;  // %1 : f16[1024, 4096]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec2 w[]; } in_bias;  // %4 : f16[1024]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %6 : f16[1024, 1024]
layout(set = 0, binding = 4) buffer Buffer4 { uvec4 w[]; } partials;  // of the workgroups that share a tile

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint part = workgroup / 64u;
  workgroup = workgroup % 64u;
  uint tile_m = workgroup % 8u;
  uint tile_n = workgroup / 8u;
  uint first_m = tile_m * 128u;
  uint first_n = tile_n * 128u;
  tensorLayoutNV<2> in_x_e_rows = createTensorLayoutNV(2);
  in_x_e_rows = setTensorLayoutDimensionNV(in_x_e_rows, 128u, 1024u);
  in_x_e_rows = setTensorLayoutStrideNV(in_x_e_rows, 4096u, 1u);
  uint in_x_e_rows_at;
  {
    uint m = first_m;
    uint chunk = part * 128u;
    in_x_e_rows_at = m * 512u + chunk;
  }
  tensorLayoutNV<2> in_weight_rows = createTensorLayoutNV(2);
  in_weight_rows = setTensorLayoutDimensionNV(in_weight_rows, 128u, 1024u);
  in_weight_rows = setTensorLayoutStrideNV(in_weight_rows, 4096u, 1u);
  uint in_weight_rows_at;
  {
    uint n = first_n;
    uint chunk = part * 128u;
    in_weight_rows_at = n * 512u + chunk;
  }
  tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
  coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> v3_v_sums = coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(0.0);
  for (uint k = 0u; k < 1024u; k += 64u) {
    coopmat<float16_t, gl_ScopeWorkgroup, 128, 64, gl_MatrixUseA> in_x_e_factor;
    coopMatLoadTensorNV(in_x_e_factor, in_x.w, in_x_e_rows_at, sliceTensorLayoutNV(in_x_e_rows, 0u, 128u, k, 64u));
    coopmat<float16_t, gl_ScopeWorkgroup, 64, 128, gl_MatrixUseB> in_weight_factor;
    coopMatLoadTensorNV(in_weight_factor, in_weight.w, in_weight_rows_at, sliceTensorLayoutNV(in_weight_rows, 0u, 128u, k, 64u), turned);
    v3_v_sums = coopMatMulAdd(in_x_e_factor, in_weight_factor, v3_v_sums);
  }
  uint m = first_m;
  uint chunk = first_n / 4u;
  tensorLayoutNV<2> partial_rows = createTensorLayoutNV(2);
  partial_rows = setTensorLayoutDimensionNV(partial_rows, 128u, 128u);
  partial_rows = setTensorLayoutStrideNV(partial_rows, 1024u, 1u);
  coopMatStoreTensorNV(v3_v_sums, partials.w, part * 262144u + m * 256u + chunk, sliceTensorLayoutNV(partial_rows, 0u, 128u, 0u, 128u));
}
