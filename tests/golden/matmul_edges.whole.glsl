#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "the product behind an attention, of sizes that no tile divides": permute, reshape, dot, add
// tiles of 128 x 128, 64 at a time along the sum, which the workgroup multiplies as one
layout(local_size_x_id = 0) in;
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);  // keep NaN and infinities of f32

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
  uint depth;   // of the sums; not known to the compiler
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_heads;  // %0 : f16[4, 160, 64]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weight;  // %3 : f16[256, 136]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_residual;  // %5 : f16[160, 136]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec4 w[]; } out_y;  // %6 : f16[160, 136]

// One element of the results.
void result_element(float v4_v, float in_residual, out float out_y_result) {
  precise float out_y = v4_v + in_residual;
  out_y_result = out_y;
}

float result_at(const in uint row, const in uint column, const in float product, const in float in_residual, const in uint first_m, const in uint first_n) {
  uint m = first_m + row;
  uint chunk = first_n + column;
  float whole;
  result_element(product, in_residual, whole);
  return whole;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint tile_m = workgroup % 2u;
  uint tile_n = workgroup / 2u;
  uint first_m = min(tile_m * 128u, 32u);
  uint first_n = min(tile_n * 128u, 8u);
  tensorLayoutNV<2> in_heads_e_rows = createTensorLayoutNV(2);
  in_heads_e_rows = setTensorLayoutDimensionNV(in_heads_e_rows, 128u, 64u);
  in_heads_e_rows = setTensorLayoutStrideNV(in_heads_e_rows, 64u, 1u);
  tensorLayoutNV<2> in_weight_rows = createTensorLayoutNV(2);
  in_weight_rows = setTensorLayoutDimensionNV(in_weight_rows, 256u, 128u);
  in_weight_rows = setTensorLayoutStrideNV(in_weight_rows, 136u, 1u);
  uint in_weight_rows_at;
  {
    uint chunk = first_n / 8u;
    uint k = 0u;
    in_weight_rows_at = chunk + k * 17u;
  }
  coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> v4_v_sums = coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(0.0);
  for (uint k = 0u; k < p.depth; k += 64u) {
    coopmat<float16_t, gl_ScopeWorkgroup, 128, 64, gl_MatrixUseA> in_heads_e_factor;
    uint in_heads_e_rows_at;
    {
      uint m = first_m;
      uint chunk = k / 8u;
      uint q = chunk / 8u;
      uint r = chunk % 8u;
      in_heads_e_rows_at = m * 8u + q * 1280u + r;
    }
    coopMatLoadTensorNV(in_heads_e_factor, in_heads.w, in_heads_e_rows_at, sliceTensorLayoutNV(in_heads_e_rows, 0u, 128u, 0u, 64u));
    coopmat<float16_t, gl_ScopeWorkgroup, 64, 128, gl_MatrixUseB> in_weight_factor;
    coopMatLoadTensorNV(in_weight_factor, in_weight.w, in_weight_rows_at, sliceTensorLayoutNV(in_weight_rows, k, 64u, 0u, 128u));
    v4_v_sums = coopMatMulAdd(in_heads_e_factor, in_weight_factor, v4_v_sums);
  }
  uint m = first_m;
  uint chunk = first_n;
  coopmat<float16_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> in_residual_tile;
  tensorLayoutNV<2> in_residual_rows = createTensorLayoutNV(2);
  in_residual_rows = setTensorLayoutDimensionNV(in_residual_rows, 128u, 128u);
  in_residual_rows = setTensorLayoutStrideNV(in_residual_rows, 136u, 1u);
  uint q1 = chunk / 8u;
  coopMatLoadTensorNV(in_residual_tile, in_residual.w, m * 17u + q1, sliceTensorLayoutNV(in_residual_rows, 0u, 128u, 0u, 128u));
  coopMatPerElementNV(v4_v_sums, v4_v_sums, result_at, coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(in_residual_tile), first_m, first_n);
  coopmat<float16_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> rounded = coopmat<float16_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(v4_v_sums);
  tensorLayoutNV<2> out_y_rows = createTensorLayoutNV(2);
  out_y_rows = setTensorLayoutDimensionNV(out_y_rows, 128u, 128u);
  out_y_rows = setTensorLayoutStrideNV(out_y_rows, 136u, 1u);
  uint q2 = chunk / 8u;
  coopMatStoreTensorNV(rounded, out_y.w, m * 17u + q2, sliceTensorLayoutNV(out_y_rows, 0u, 128u, 0u, 128u));
}
