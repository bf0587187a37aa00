#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "attention with a bias and a mask": mul, dot, add
// tiles of 64 x 64, 16 at a time along the sum; 4 x 4 per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } in_q;  // %1 : f16[2, 4, 256, 64]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_k;  // %4 : f16[2, 4, 256, 64]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec2 w[]; } in_bias;  // %6 : f16[4, 256, 256]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } v7;  // %7 : f16[2, 4, 256, 256]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared vec4 v3_tile[272];
shared vec4 in_k_tile[272];

// One element of an operand.
void v3_factor_element(float in_q_e, out float tile_operand) {
  precise float v3 = in_q_e * 0.125;
  tile_operand = v3;
}

// One element of the results.
void result_element(float in_bias, float v5_v, out float v7_result) {
  precise float v7 = v5_v + in_bias;
  v7_result = v7;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 16u;
  uint tile = workgroup % 16u;
  uint tile_m = tile % 4u;
  uint tile_n = tile / 4u;
  uint thread_m = thread / 16u;
  uint thread_n = thread % 16u;
  vec4 v5_v_sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) v5_v_sums[i] = vec4(0.0);
  uvec2 in_q_e_w0;
  {
    const uint u = 0u;
    uint row = thread / 4u;
    uint column = thread % 4u;
    uint m = tile_m * 64u + row;
    uint chunk = column;
    in_q_e_w0 = in_q.w[batch * 4096u + m * 16u + chunk];
  }
  uvec2 in_k_w0;
  {
    const uint u = 0u;
    uint row = thread / 4u;
    uint column = thread % 4u;
    uint n = tile_n * 64u + row;
    uint chunk = column;
    in_k_w0 = in_k.w[batch * 4096u + n * 16u + chunk];
  }
  for (uint step = 0u; step < 4u; ++step) {
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = tile_m * 64u + row;
      uint chunk = step * 4u + column;
      vec4 in_q_e_0 = vec4(f16x2_values_native(in_q_e_w0.x), f16x2_values_native(in_q_e_w0.y));
      vec4 factor_0;
      v3_factor_element(in_q_e_0[0], factor_0[0]);
      v3_factor_element(in_q_e_0[1], factor_0[1]);
      v3_factor_element(in_q_e_0[2], factor_0[2]);
      v3_factor_element(in_q_e_0[3], factor_0[3]);
      v3_tile[(column * 4u + 0u) * 17u + row / 4u][row % 4u] = factor_0[0];
      v3_tile[(column * 4u + 1u) * 17u + row / 4u][row % 4u] = factor_0[1];
      v3_tile[(column * 4u + 2u) * 17u + row / 4u][row % 4u] = factor_0[2];
      v3_tile[(column * 4u + 3u) * 17u + row / 4u][row % 4u] = factor_0[3];
    }
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint n = tile_n * 64u + row;
      uint chunk = step * 4u + column;
      vec4 in_k_0 = vec4(f16x2_values_native(in_k_w0.x), f16x2_values_native(in_k_w0.y));
      in_k_tile[(column * 4u + 0u) * 17u + row / 4u][row % 4u] = in_k_0[0];
      in_k_tile[(column * 4u + 1u) * 17u + row / 4u][row % 4u] = in_k_0[1];
      in_k_tile[(column * 4u + 2u) * 17u + row / 4u][row % 4u] = in_k_0[2];
      in_k_tile[(column * 4u + 3u) * 17u + row / 4u][row % 4u] = in_k_0[3];
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 4u - 1u);
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = tile_m * 64u + row;
      uint chunk = next * 4u + column;
      in_q_e_w0 = in_q.w[batch * 4096u + m * 16u + chunk];
    }
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint n = tile_n * 64u + row;
      uint chunk = next * 4u + column;
      in_k_w0 = in_k.w[batch * 4096u + n * 16u + chunk];
    }
    for (uint k = 0u; k < 16u; ++k) {
      vec4 v3_factor_0 = v3_tile[k * 17u + thread_m];
      vec4 in_k_factor_0 = in_k_tile[k * 17u + thread_n];
      v5_v_sums[0] = fma(vec4(v3_factor_0.x), in_k_factor_0, v5_v_sums[0]);
      v5_v_sums[1] = fma(vec4(v3_factor_0.y), in_k_factor_0, v5_v_sums[1]);
      v5_v_sums[2] = fma(vec4(v3_factor_0.z), in_k_factor_0, v5_v_sums[2]);
      v5_v_sums[3] = fma(vec4(v3_factor_0.w), in_k_factor_0, v5_v_sums[3]);
    }
    barrier();
  }
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    uint m = tile_m * 64u + thread_m * 4u + i;
    [[unroll]] for (uint g = 0u; g < 1u; ++g) {
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      uint r = batch % 4u;
      uvec2 in_bias_w0 = in_bias.w[m * 64u + chunk + r * 16384u];
      vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0.x), f16x2_values_native(in_bias_w0.y));
      vec4 v7_0;
      result_element(in_bias_0[0], v5_v_sums[i].x, v7_0[0]);
      result_element(in_bias_0[1], v5_v_sums[i].y, v7_0[1]);
      result_element(in_bias_0[2], v5_v_sums[i].z, v7_0[2]);
      result_element(in_bias_0[3], v5_v_sums[i].w, v7_0[3]);
      v7.w[batch * 16384u + m * 64u + chunk] = uvec2(f16x2_bits_native(v7_0.xy), f16x2_bits_native(v7_0.zw));
    }
  }
}

#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// segment 1 of graph "attention with a bias and a mask": select, reduce_max, reshape, sub, exp, reduce_sum, reshape, div
// 16 threads per row, 8 rows per workgroup, 16 elements per chunk, 1 chunk per thread, kept in registers
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_mask;  // %0 : bool[2, 1, 256, 256]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } v7;  // %7 : f16[2, 4, 256, 256]
layout(set = 0, binding = 2) writeonly buffer Buffer2 { uvec4 w[]; } v16;  // %16 : f16[2, 4, 256, 256]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

float f32_max_bits(float x, float y) {
  float larger = x < y ? y : x;
  larger = f32_is_nan(y) ? y : larger;
  return f32_is_nan(x) ? x : larger;
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

// Within 2.5 ulp, as Vulkan promises for divisors up to 2^126: a larger one is scaled down first.
float f32_div(float x, float y) {
  float scale = f32_magnitude_bits(y) >= 0x7e800000u ? 0.0625 : 1.0;
  precise float quotient = x / (y * scale) * scale;
  return quotient;
}

uvec4 u8x4_values(uint word) {
  return (uvec4(word) >> uvec4(0u, 8u, 16u, 24u)) & 0xffu;
}

bvec4 boolx4_values(uint word) {
  return notEqual(u8x4_values(word), uvec4(0u));
}

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared float v10_shared[128];
shared float v14_shared[128];

void v10_join(inout float a, float b) {
  precise float joined = f32_max_bits(a, b);
  a = joined;
}

void v14_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(bool in_mask, float v7, inout float v10) {
  precise float v9 = in_mask ? v7 : (-10000.0);
  v10_join(v10, v9);
}

// One element of pass 1.
void pass1(bool in_mask, float v7, float v10, inout float v14) {
  precise float v9 = in_mask ? v7 : (-10000.0);
  precise float v12 = v9 - v10;
  precise float v13 = f32_exp(v12);
  v14_join(v14, v13);
}

// One element of pass 2.
void pass2(bool in_mask, float v7, float v10, float v14, out float v16_result) {
  precise float v9 = in_mask ? v7 : (-10000.0);
  precise float v12 = v9 - v10;
  precise float v13 = f32_exp(v12);
  precise float v16 = f32_div(v13, v14);
  v16_result = v16;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_LocalInvocationID.x;
  uint reduction_thread = thread % 16u;
  uint row = workgroup * 8u + thread / 16u;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  uint column = reduction_thread;
  uint q = row / 1024u;
  uint r = row % 256u;
  uvec4 in_mask_w0 = in_mask.w[column + q * 4096u + r * 16u];
  uvec4 v7_w0 = v7.w[row * 32u + column * 2u];
  uvec4 v7_w1 = v7.w[row * 32u + column * 2u + 1u];
  float v10 = uintBitsToFloat(0xff800000u);
  {
    bvec4 in_mask_0 = boolx4_values(in_mask_w0.x);
    vec4 v7_0 = vec4(f16x2_values_native(v7_w0.x), f16x2_values_native(v7_w0.y));
    pass0(in_mask_0[0], v7_0[0], v10);
    pass0(in_mask_0[1], v7_0[1], v10);
    pass0(in_mask_0[2], v7_0[2], v10);
    pass0(in_mask_0[3], v7_0[3], v10);
    bvec4 in_mask_1 = boolx4_values(in_mask_w0.y);
    vec4 v7_1 = vec4(f16x2_values_native(v7_w0.z), f16x2_values_native(v7_w0.w));
    pass0(in_mask_1[0], v7_1[0], v10);
    pass0(in_mask_1[1], v7_1[1], v10);
    pass0(in_mask_1[2], v7_1[2], v10);
    pass0(in_mask_1[3], v7_1[3], v10);
    bvec4 in_mask_2 = boolx4_values(in_mask_w0.z);
    vec4 v7_2 = vec4(f16x2_values_native(v7_w1.x), f16x2_values_native(v7_w1.y));
    pass0(in_mask_2[0], v7_2[0], v10);
    pass0(in_mask_2[1], v7_2[1], v10);
    pass0(in_mask_2[2], v7_2[2], v10);
    pass0(in_mask_2[3], v7_2[3], v10);
    bvec4 in_mask_3 = boolx4_values(in_mask_w0.w);
    vec4 v7_3 = vec4(f16x2_values_native(v7_w1.z), f16x2_values_native(v7_w1.w));
    pass0(in_mask_3[0], v7_3[0], v10);
    pass0(in_mask_3[1], v7_3[1], v10);
    pass0(in_mask_3[2], v7_3[2], v10);
    pass0(in_mask_3[3], v7_3[3], v10);
  }
  v10_shared[thread] = v10;
  barrier();
  for (uint reach = 8u; reach > 0u; reach >>= 1) {
    if (reduction_thread < reach) {
      v10_join(v10, v10_shared[thread + reach]);
      v10_shared[thread] = v10;
    }
    barrier();
  }
  v10 = v10_shared[thread - reduction_thread];
  float v14 = 0.0;
  {
    bvec4 in_mask_0 = boolx4_values(in_mask_w0.x);
    vec4 v7_0 = vec4(f16x2_values_native(v7_w0.x), f16x2_values_native(v7_w0.y));
    pass1(in_mask_0[0], v7_0[0], v10, v14);
    pass1(in_mask_0[1], v7_0[1], v10, v14);
    pass1(in_mask_0[2], v7_0[2], v10, v14);
    pass1(in_mask_0[3], v7_0[3], v10, v14);
    bvec4 in_mask_1 = boolx4_values(in_mask_w0.y);
    vec4 v7_1 = vec4(f16x2_values_native(v7_w0.z), f16x2_values_native(v7_w0.w));
    pass1(in_mask_1[0], v7_1[0], v10, v14);
    pass1(in_mask_1[1], v7_1[1], v10, v14);
    pass1(in_mask_1[2], v7_1[2], v10, v14);
    pass1(in_mask_1[3], v7_1[3], v10, v14);
    bvec4 in_mask_2 = boolx4_values(in_mask_w0.z);
    vec4 v7_2 = vec4(f16x2_values_native(v7_w1.x), f16x2_values_native(v7_w1.y));
    pass1(in_mask_2[0], v7_2[0], v10, v14);
    pass1(in_mask_2[1], v7_2[1], v10, v14);
    pass1(in_mask_2[2], v7_2[2], v10, v14);
    pass1(in_mask_2[3], v7_2[3], v10, v14);
    bvec4 in_mask_3 = boolx4_values(in_mask_w0.w);
    vec4 v7_3 = vec4(f16x2_values_native(v7_w1.z), f16x2_values_native(v7_w1.w));
    pass1(in_mask_3[0], v7_3[0], v10, v14);
    pass1(in_mask_3[1], v7_3[1], v10, v14);
    pass1(in_mask_3[2], v7_3[2], v10, v14);
    pass1(in_mask_3[3], v7_3[3], v10, v14);
  }
  v14_shared[thread] = v14;
  barrier();
  for (uint reach = 8u; reach > 0u; reach >>= 1) {
    if (reduction_thread < reach) {
      v14_join(v14, v14_shared[thread + reach]);
      v14_shared[thread] = v14;
    }
    barrier();
  }
  v14 = v14_shared[thread - reduction_thread];
  {
    bvec4 in_mask_0 = boolx4_values(in_mask_w0.x);
    vec4 v7_0 = vec4(f16x2_values_native(v7_w0.x), f16x2_values_native(v7_w0.y));
    vec4 v16_0;
    pass2(in_mask_0[0], v7_0[0], v10, v14, v16_0[0]);
    pass2(in_mask_0[1], v7_0[1], v10, v14, v16_0[1]);
    pass2(in_mask_0[2], v7_0[2], v10, v14, v16_0[2]);
    pass2(in_mask_0[3], v7_0[3], v10, v14, v16_0[3]);
    bvec4 in_mask_1 = boolx4_values(in_mask_w0.y);
    vec4 v7_1 = vec4(f16x2_values_native(v7_w0.z), f16x2_values_native(v7_w0.w));
    vec4 v16_1;
    pass2(in_mask_1[0], v7_1[0], v10, v14, v16_1[0]);
    pass2(in_mask_1[1], v7_1[1], v10, v14, v16_1[1]);
    pass2(in_mask_1[2], v7_1[2], v10, v14, v16_1[2]);
    pass2(in_mask_1[3], v7_1[3], v10, v14, v16_1[3]);
    bvec4 in_mask_2 = boolx4_values(in_mask_w0.z);
    vec4 v7_2 = vec4(f16x2_values_native(v7_w1.x), f16x2_values_native(v7_w1.y));
    vec4 v16_2;
    pass2(in_mask_2[0], v7_2[0], v10, v14, v16_2[0]);
    pass2(in_mask_2[1], v7_2[1], v10, v14, v16_2[1]);
    pass2(in_mask_2[2], v7_2[2], v10, v14, v16_2[2]);
    pass2(in_mask_2[3], v7_2[3], v10, v14, v16_2[3]);
    bvec4 in_mask_3 = boolx4_values(in_mask_w0.w);
    vec4 v7_3 = vec4(f16x2_values_native(v7_w1.z), f16x2_values_native(v7_w1.w));
    vec4 v16_3;
    pass2(in_mask_3[0], v7_3[0], v10, v14, v16_3[0]);
    pass2(in_mask_3[1], v7_3[1], v10, v14, v16_3[1]);
    pass2(in_mask_3[2], v7_3[2], v10, v14, v16_3[2]);
    pass2(in_mask_3[3], v7_3[3], v10, v14, v16_3[3]);
    if (inside) {
      v16.w[row * 32u + column * 2u] = uvec4(f16x2_bits_native(v16_0.xy), f16x2_bits_native(v16_0.zw), f16x2_bits_native(v16_1.xy), f16x2_bits_native(v16_1.zw));
      v16.w[row * 32u + column * 2u + 1u] = uvec4(f16x2_bits_native(v16_2.xy), f16x2_bits_native(v16_2.zw), f16x2_bits_native(v16_3.xy), f16x2_bits_native(v16_3.zw));
    }
  }
}

#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 2 of graph "attention with a bias and a mask": dot
// tiles of 64 x 64, 16 at a time along the sum; 4 x 4 per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } v16;  // %16 : f16[2, 4, 256, 256]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_v;  // %17 : f16[2, 4, 256, 64]
layout(set = 0, binding = 2) writeonly buffer Buffer2 { uvec2 w[]; } out_y;  // %18 : f16[2, 4, 256, 64]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared vec4 v16_e_tile[272];
shared vec4 in_v_tile[272];

// One element of the results.
void result_element(float out_y_v, out float out_y_result) {
  out_y_result = out_y_v;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 4u;
  uint tile = workgroup % 4u;
  uint tile_m = tile % 4u;
  uint tile_n = tile / 4u;
  uint thread_m = thread / 16u;
  uint thread_n = thread % 16u;
  vec4 out_y_v_sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) out_y_v_sums[i] = vec4(0.0);
  uvec2 v16_e_w0;
  {
    const uint u = 0u;
    uint row = thread / 4u;
    uint column = thread % 4u;
    uint m = tile_m * 64u + row;
    uint chunk = column;
    v16_e_w0 = v16.w[batch * 16384u + m * 64u + chunk];
  }
  uvec2 in_v_w0;
  {
    const uint u = 0u;
    uint column = thread / 16u;
    uint row = thread % 16u;
    uint chunk = tile_n * 16u + row;
    uint k = column;
    in_v_w0 = in_v.w[batch * 4096u + chunk + k * 16u];
  }
  for (uint step = 0u; step < 16u; ++step) {
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = tile_m * 64u + row;
      uint chunk = step * 4u + column;
      vec4 v16_e_0 = vec4(f16x2_values_native(v16_e_w0.x), f16x2_values_native(v16_e_w0.y));
      v16_e_tile[(column * 4u + 0u) * 17u + row / 4u][row % 4u] = v16_e_0[0];
      v16_e_tile[(column * 4u + 1u) * 17u + row / 4u][row % 4u] = v16_e_0[1];
      v16_e_tile[(column * 4u + 2u) * 17u + row / 4u][row % 4u] = v16_e_0[2];
      v16_e_tile[(column * 4u + 3u) * 17u + row / 4u][row % 4u] = v16_e_0[3];
    }
    {
      const uint u = 0u;
      uint column = thread / 16u;
      uint row = thread % 16u;
      uint chunk = tile_n * 16u + row;
      uint k = step * 16u + column;
      vec4 in_v_0 = vec4(f16x2_values_native(in_v_w0.x), f16x2_values_native(in_v_w0.y));
      in_v_tile[column * 17u + row] = in_v_0;
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 16u - 1u);
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = tile_m * 64u + row;
      uint chunk = next * 4u + column;
      v16_e_w0 = v16.w[batch * 16384u + m * 64u + chunk];
    }
    {
      const uint u = 0u;
      uint column = thread / 16u;
      uint row = thread % 16u;
      uint chunk = tile_n * 16u + row;
      uint k = next * 16u + column;
      in_v_w0 = in_v.w[batch * 4096u + chunk + k * 16u];
    }
    for (uint k = 0u; k < 16u; ++k) {
      vec4 v16_e_factor_0 = v16_e_tile[k * 17u + thread_m];
      vec4 in_v_factor_0 = in_v_tile[k * 17u + thread_n];
      out_y_v_sums[0] = fma(vec4(v16_e_factor_0.x), in_v_factor_0, out_y_v_sums[0]);
      out_y_v_sums[1] = fma(vec4(v16_e_factor_0.y), in_v_factor_0, out_y_v_sums[1]);
      out_y_v_sums[2] = fma(vec4(v16_e_factor_0.z), in_v_factor_0, out_y_v_sums[2]);
      out_y_v_sums[3] = fma(vec4(v16_e_factor_0.w), in_v_factor_0, out_y_v_sums[3]);
    }
    barrier();
  }
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    uint m = tile_m * 64u + thread_m * 4u + i;
    [[unroll]] for (uint g = 0u; g < 1u; ++g) {
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      vec4 out_y_0;
      result_element(out_y_v_sums[i].x, out_y_0[0]);
      result_element(out_y_v_sums[i].y, out_y_0[1]);
      result_element(out_y_v_sums[i].z, out_y_0[2]);
      result_element(out_y_v_sums[i].w, out_y_0[3]);
      out_y.w[batch * 4096u + m * 16u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
  }
}
