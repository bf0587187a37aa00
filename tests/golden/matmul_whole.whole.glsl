#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "a linear layer": permute, dot, reshape, broadcast, add, relu
// tiles of 128 x 128, 64 at a time along the sum, which the workgroup multiplies as one
layout(local_size_x_id = 0) in;
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);  // keep NaN and infinities of f32

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
  uint depth;   // of the sums; not known to the compiler
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[2, 128, 192]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weight;  // %1 : f16[256, 192]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_bias;  // %4 : f16[256]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec4 w[]; } out_y;  // %8 : f16[2, 128, 256]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

// NaN if either operand is, where an execution mode keeps NaN: no order has x NaN.
float f32_max(float x, float y) {
  bool is_larger = x < y;
  bool is_nan = y != y;
  return is_larger || is_nan ? y : x;
}

// One element of the results.
void result_element(uint chunk, float v3_v, out float out_y_result) {
  float in_bias_e = f16x2_values_native(in_bias.w[chunk >> 1] >> ((chunk & 1u) * 16u))[0];
  precise float v7 = v3_v + in_bias_e;
  precise float out_y = f32_max(v7, 0.0);
  out_y_result = out_y;
}

float result_at(const in uint row, const in uint column, const in float product, const in uint first_m, const in uint first_n) {
  uint m = first_m + row;
  uint chunk = first_n + column;
  float whole;
  result_element(chunk, product, whole);
  return whole;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint tile_m = workgroup % 2u;
  uint tile_n = workgroup / 2u;
  uint first_m = tile_m * 128u;
  uint first_n = tile_n * 128u;
  tensorLayoutNV<2> in_x_e_rows = createTensorLayoutNV(2);
  in_x_e_rows = setTensorLayoutDimensionNV(in_x_e_rows, 128u, 192u);
  in_x_e_rows = setTensorLayoutStrideNV(in_x_e_rows, 192u, 1u);
  uint in_x_e_rows_at;
  {
    uint m = first_m;
    uint chunk = 0u;
    in_x_e_rows_at = m * 24u + chunk;
  }
  tensorLayoutNV<2> in_weight_rows = createTensorLayoutNV(2);
  in_weight_rows = setTensorLayoutDimensionNV(in_weight_rows, 128u, 192u);
  in_weight_rows = setTensorLayoutStrideNV(in_weight_rows, 192u, 1u);
  uint in_weight_rows_at;
  {
    uint n = first_n;
    uint chunk = 0u;
    in_weight_rows_at = n * 24u + chunk;
  }
  tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
  coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> v3_v_sums = coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(0.0);
  for (uint k = 0u; k < p.depth; k += 64u) {
    coopmat<float16_t, gl_ScopeWorkgroup, 128, 64, gl_MatrixUseA> in_x_e_factor;
    coopMatLoadTensorNV(in_x_e_factor, in_x.w, in_x_e_rows_at, sliceTensorLayoutNV(in_x_e_rows, 0u, 128u, k, 64u));
    coopmat<float16_t, gl_ScopeWorkgroup, 64, 128, gl_MatrixUseB> in_weight_factor;
    coopMatLoadTensorNV(in_weight_factor, in_weight.w, in_weight_rows_at, sliceTensorLayoutNV(in_weight_rows, 0u, 128u, k, 64u), turned);
    v3_v_sums = coopMatMulAdd(in_x_e_factor, in_weight_factor, v3_v_sums);
  }
  uint m = first_m;
  uint chunk = first_n;
  coopMatPerElementNV(v3_v_sums, v3_v_sums, result_at, first_m, first_n);
  coopmat<float16_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> rounded = coopmat<float16_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(v3_v_sums);
  tensorLayoutNV<2> out_y_rows = createTensorLayoutNV(2);
  out_y_rows = setTensorLayoutDimensionNV(out_y_rows, 128u, 128u);
  out_y_rows = setTensorLayoutStrideNV(out_y_rows, 256u, 1u);
  uint q = chunk / 8u;
  coopMatStoreTensorNV(rounded, out_y.w, m * 32u + q, sliceTensorLayoutNV(out_y_rows, 0u, 128u, 0u, 128u));
}
