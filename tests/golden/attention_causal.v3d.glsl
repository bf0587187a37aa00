#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// segment 0 of graph "causal attention, four heads to a key": mul, reshape, dot
// tiles of 64 x 64, 16 at a time along the sum; 4 x 4 per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } in_q;  // %5 : f16[4, 16, 700, 32]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_k;  // %9 : f16[4, 4, 700, 32]
layout(set = 0, binding = 2) writeonly buffer Buffer2 { uvec2 w[]; } v10;  // %10 : f16[4, 4, 4, 700, 700]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared vec4 v7_tile[272];
shared vec4 in_k_tile[272];

// One element of an operand.
void v7_factor_element(float in_q_e, out float tile_operand) {
  precise float v7 = in_q_e * 0.17675781;
  tile_operand = v7;
}

// One element of the results.
void result_element(float v10_v, out float v10_result) {
  v10_result = v10_v;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 484u;
  uint tile = workgroup % 484u;
  uint tile_m = tile % 44u;
  uint tile_n = tile / 44u;
  uint thread_m = thread / 16u;
  uint thread_n = thread % 16u;
  vec4 v10_v_sums[4];
  {
    const uint i = 0u;
    v10_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 1u;
    v10_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 2u;
    v10_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 3u;
    v10_v_sums[i] = vec4(0.0);
  }
  uvec2 in_q_e_w0;
  {
    const uint u = 0u;
    uint row = thread / 4u;
    uint column = thread % 4u;
    uint m = min(tile_m * 64u + row, 2800u - 1u);
    uint chunk = column;
    in_q_e_w0 = in_q.w[batch * 22400u + m * 8u + chunk];
  }
  uvec2 in_k_w0;
  {
    const uint u = 0u;
    uint row = thread / 4u;
    uint column = thread % 4u;
    uint n = min(tile_n * 64u + row, 700u - 1u);
    uint chunk = column;
    in_k_w0 = in_k.w[batch * 5600u + n * 8u + chunk];
  }
  for (uint step = 0u; step < 2u; ++step) {
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = min(tile_m * 64u + row, 2800u - 1u);
      uint chunk = step * 4u + column;
      vec4 in_q_e_0 = vec4(f16x2_values_native(in_q_e_w0.x), f16x2_values_native(in_q_e_w0.y));
      vec4 factor_0;
      v7_factor_element(in_q_e_0[0], factor_0[0]);
      v7_factor_element(in_q_e_0[1], factor_0[1]);
      v7_factor_element(in_q_e_0[2], factor_0[2]);
      v7_factor_element(in_q_e_0[3], factor_0[3]);
      v7_tile[(column * 4u + 0u) * 17u + row / 4u][row % 4u] = factor_0[0];
      v7_tile[(column * 4u + 1u) * 17u + row / 4u][row % 4u] = factor_0[1];
      v7_tile[(column * 4u + 2u) * 17u + row / 4u][row % 4u] = factor_0[2];
      v7_tile[(column * 4u + 3u) * 17u + row / 4u][row % 4u] = factor_0[3];
    }
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint n = min(tile_n * 64u + row, 700u - 1u);
      uint chunk = step * 4u + column;
      vec4 in_k_0 = vec4(f16x2_values_native(in_k_w0.x), f16x2_values_native(in_k_w0.y));
      in_k_tile[(column * 4u + 0u) * 17u + row / 4u][row % 4u] = in_k_0[0];
      in_k_tile[(column * 4u + 1u) * 17u + row / 4u][row % 4u] = in_k_0[1];
      in_k_tile[(column * 4u + 2u) * 17u + row / 4u][row % 4u] = in_k_0[2];
      in_k_tile[(column * 4u + 3u) * 17u + row / 4u][row % 4u] = in_k_0[3];
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 2u - 1u);
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = min(tile_m * 64u + row, 2800u - 1u);
      uint chunk = next * 4u + column;
      in_q_e_w0 = in_q.w[batch * 22400u + m * 8u + chunk];
    }
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint n = min(tile_n * 64u + row, 700u - 1u);
      uint chunk = next * 4u + column;
      in_k_w0 = in_k.w[batch * 5600u + n * 8u + chunk];
    }
    for (uint k = 0u; k < 16u; ++k) {
      vec4 v7_factor_0 = v7_tile[k * 17u + thread_m];
      vec4 in_k_factor_0 = in_k_tile[k * 17u + thread_n];
      v10_v_sums[0] = fma(vec4(v7_factor_0.x), in_k_factor_0, v10_v_sums[0]);
      v10_v_sums[1] = fma(vec4(v7_factor_0.y), in_k_factor_0, v10_v_sums[1]);
      v10_v_sums[2] = fma(vec4(v7_factor_0.z), in_k_factor_0, v10_v_sums[2]);
      v10_v_sums[3] = fma(vec4(v7_factor_0.w), in_k_factor_0, v10_v_sums[3]);
    }
    barrier();
  }
  {
    const uint i = 0u;
    uint m = tile_m * 64u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 2800u && chunk < 175u) {
        vec4 v10_0;
        result_element(v10_v_sums[i].x, v10_0[0]);
        result_element(v10_v_sums[i].y, v10_0[1]);
        result_element(v10_v_sums[i].z, v10_0[2]);
        result_element(v10_v_sums[i].w, v10_0[3]);
        v10.w[batch * 490000u + m * 175u + chunk] = uvec2(f16x2_bits_native(v10_0.xy), f16x2_bits_native(v10_0.zw));
      }
    }
  }
  {
    const uint i = 1u;
    uint m = tile_m * 64u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 2800u && chunk < 175u) {
        vec4 v10_0;
        result_element(v10_v_sums[i].x, v10_0[0]);
        result_element(v10_v_sums[i].y, v10_0[1]);
        result_element(v10_v_sums[i].z, v10_0[2]);
        result_element(v10_v_sums[i].w, v10_0[3]);
        v10.w[batch * 490000u + m * 175u + chunk] = uvec2(f16x2_bits_native(v10_0.xy), f16x2_bits_native(v10_0.zw));
      }
    }
  }
  {
    const uint i = 2u;
    uint m = tile_m * 64u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 2800u && chunk < 175u) {
        vec4 v10_0;
        result_element(v10_v_sums[i].x, v10_0[0]);
        result_element(v10_v_sums[i].y, v10_0[1]);
        result_element(v10_v_sums[i].z, v10_0[2]);
        result_element(v10_v_sums[i].w, v10_0[3]);
        v10.w[batch * 490000u + m * 175u + chunk] = uvec2(f16x2_bits_native(v10_0.xy), f16x2_bits_native(v10_0.zw));
      }
    }
  }
  {
    const uint i = 3u;
    uint m = tile_m * 64u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 2800u && chunk < 175u) {
        vec4 v10_0;
        result_element(v10_v_sums[i].x, v10_0[0]);
        result_element(v10_v_sums[i].y, v10_0[1]);
        result_element(v10_v_sums[i].z, v10_0[2]);
        result_element(v10_v_sums[i].w, v10_0[3]);
        v10.w[batch * 490000u + m * 175u + chunk] = uvec2(f16x2_bits_native(v10_0.xy), f16x2_bits_native(v10_0.zw));
      }
    }
  }
}

#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// segment 1 of graph "causal attention, four heads to a key": iota, iota, sub, le, reshape, select, reduce_max, reshape, ... 13 ops in all
// 32 threads per row, 4 rows per workgroup, 4 elements per chunk, 6 chunks per thread, kept in registers
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } v10;  // %10 : f16[4, 4, 4, 700, 700]
layout(set = 0, binding = 1) writeonly buffer Buffer1 { uvec2 w[]; } v20;  // %20 : f16[4, 16, 700, 700]

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

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared float v14_shared[8];
shared float v18_shared[8];

void v14_join(inout float a, float b) {
  precise float joined = f32_max_bits(a, b);
  a = joined;
}

void v18_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(uint column, uint j, int v1, float v10, inout float v14) {
  int v0 = int((j + column * 4u));
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v13 = v4 ? v10 : uintBitsToFloat(0xff800000u);
  v14_join(v14, v13);
}

// One element of pass 1.
void pass1(uint column, uint j, int v1, float v10, float v14, inout float v18) {
  int v0 = int((j + column * 4u));
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v13 = v4 ? v10 : uintBitsToFloat(0xff800000u);
  precise float v16 = v13 - v14;
  precise float v17 = f32_exp(v16);
  v18_join(v18, v17);
}

// One element of pass 2.
void pass2(uint column, uint j, int v1, float v10, float v14, float v18, out float v20_result) {
  int v0 = int((j + column * 4u));
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v13 = v4 ? v10 : uintBitsToFloat(0xff800000u);
  precise float v16 = v13 - v14;
  precise float v17 = f32_exp(v16);
  precise float v20 = f32_div(v17, v18);
  v20_result = v20;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint reduction_thread = thread % 32u;
  uint row = workgroup * 4u + thread / 32u;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  uvec2 v10_w0[6];
  {
    const uint t = 0u;
    uint column = min(t * 32u + reduction_thread, 174u);
    v10_w0[t] = v10.w[row * 175u + column];
  }
  {
    const uint t = 1u;
    uint column = min(t * 32u + reduction_thread, 174u);
    v10_w0[t] = v10.w[row * 175u + column];
  }
  {
    const uint t = 2u;
    uint column = min(t * 32u + reduction_thread, 174u);
    v10_w0[t] = v10.w[row * 175u + column];
  }
  {
    const uint t = 3u;
    uint column = min(t * 32u + reduction_thread, 174u);
    v10_w0[t] = v10.w[row * 175u + column];
  }
  {
    const uint t = 4u;
    uint column = min(t * 32u + reduction_thread, 174u);
    v10_w0[t] = v10.w[row * 175u + column];
  }
  {
    const uint t = 5u;
    uint column = min(t * 32u + reduction_thread, 174u);
    v10_w0[t] = v10.w[row * 175u + column];
  }
  uint r = row % 700u;
  int v1 = int(r);
  float v14 = uintBitsToFloat(0xff800000u);
  {
    const uint t = 0u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass0(column, 0u, v1, v10_0[0], v14);
      pass0(column, 1u, v1, v10_0[1], v14);
      pass0(column, 2u, v1, v10_0[2], v14);
      pass0(column, 3u, v1, v10_0[3], v14);
    }
  }
  {
    const uint t = 1u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass0(column, 0u, v1, v10_0[0], v14);
      pass0(column, 1u, v1, v10_0[1], v14);
      pass0(column, 2u, v1, v10_0[2], v14);
      pass0(column, 3u, v1, v10_0[3], v14);
    }
  }
  {
    const uint t = 2u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass0(column, 0u, v1, v10_0[0], v14);
      pass0(column, 1u, v1, v10_0[1], v14);
      pass0(column, 2u, v1, v10_0[2], v14);
      pass0(column, 3u, v1, v10_0[3], v14);
    }
  }
  {
    const uint t = 3u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass0(column, 0u, v1, v10_0[0], v14);
      pass0(column, 1u, v1, v10_0[1], v14);
      pass0(column, 2u, v1, v10_0[2], v14);
      pass0(column, 3u, v1, v10_0[3], v14);
    }
  }
  {
    const uint t = 4u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass0(column, 0u, v1, v10_0[0], v14);
      pass0(column, 1u, v1, v10_0[1], v14);
      pass0(column, 2u, v1, v10_0[2], v14);
      pass0(column, 3u, v1, v10_0[3], v14);
    }
  }
  {
    const uint t = 5u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass0(column, 0u, v1, v10_0[0], v14);
      pass0(column, 1u, v1, v10_0[1], v14);
      pass0(column, 2u, v1, v10_0[2], v14);
      pass0(column, 3u, v1, v10_0[3], v14);
    }
  }
  for (uint mask = 8u; mask > 0u; mask >>= 1) {
    v14_join(v14, subgroupShuffleXor(v14, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v14_shared[gl_SubgroupID] = v14;
  }
  barrier();
  v14 = v14_shared[gl_SubgroupID / 2u * 2u + gl_SubgroupInvocationID % 2u];
  for (uint mask = 1u; mask > 0u; mask >>= 1) {
    v14_join(v14, subgroupShuffleXor(v14, mask));
  }
  float v18 = 0.0;
  {
    const uint t = 0u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass1(column, 0u, v1, v10_0[0], v14, v18);
      pass1(column, 1u, v1, v10_0[1], v14, v18);
      pass1(column, 2u, v1, v10_0[2], v14, v18);
      pass1(column, 3u, v1, v10_0[3], v14, v18);
    }
  }
  {
    const uint t = 1u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass1(column, 0u, v1, v10_0[0], v14, v18);
      pass1(column, 1u, v1, v10_0[1], v14, v18);
      pass1(column, 2u, v1, v10_0[2], v14, v18);
      pass1(column, 3u, v1, v10_0[3], v14, v18);
    }
  }
  {
    const uint t = 2u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass1(column, 0u, v1, v10_0[0], v14, v18);
      pass1(column, 1u, v1, v10_0[1], v14, v18);
      pass1(column, 2u, v1, v10_0[2], v14, v18);
      pass1(column, 3u, v1, v10_0[3], v14, v18);
    }
  }
  {
    const uint t = 3u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass1(column, 0u, v1, v10_0[0], v14, v18);
      pass1(column, 1u, v1, v10_0[1], v14, v18);
      pass1(column, 2u, v1, v10_0[2], v14, v18);
      pass1(column, 3u, v1, v10_0[3], v14, v18);
    }
  }
  {
    const uint t = 4u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass1(column, 0u, v1, v10_0[0], v14, v18);
      pass1(column, 1u, v1, v10_0[1], v14, v18);
      pass1(column, 2u, v1, v10_0[2], v14, v18);
      pass1(column, 3u, v1, v10_0[3], v14, v18);
    }
  }
  {
    const uint t = 5u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      pass1(column, 0u, v1, v10_0[0], v14, v18);
      pass1(column, 1u, v1, v10_0[1], v14, v18);
      pass1(column, 2u, v1, v10_0[2], v14, v18);
      pass1(column, 3u, v1, v10_0[3], v14, v18);
    }
  }
  for (uint mask = 8u; mask > 0u; mask >>= 1) {
    v18_join(v18, subgroupShuffleXor(v18, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v18_shared[gl_SubgroupID] = v18;
  }
  barrier();
  v18 = v18_shared[gl_SubgroupID / 2u * 2u + gl_SubgroupInvocationID % 2u];
  for (uint mask = 1u; mask > 0u; mask >>= 1) {
    v18_join(v18, subgroupShuffleXor(v18, mask));
  }
  {
    const uint t = 0u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      vec4 v20_0;
      pass2(column, 0u, v1, v10_0[0], v14, v18, v20_0[0]);
      pass2(column, 1u, v1, v10_0[1], v14, v18, v20_0[1]);
      pass2(column, 2u, v1, v10_0[2], v14, v18, v20_0[2]);
      pass2(column, 3u, v1, v10_0[3], v14, v18, v20_0[3]);
      if (inside) {
        v20.w[row * 175u + column] = uvec2(f16x2_bits_native(v20_0.xy), f16x2_bits_native(v20_0.zw));
      }
    }
  }
  {
    const uint t = 1u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      vec4 v20_0;
      pass2(column, 0u, v1, v10_0[0], v14, v18, v20_0[0]);
      pass2(column, 1u, v1, v10_0[1], v14, v18, v20_0[1]);
      pass2(column, 2u, v1, v10_0[2], v14, v18, v20_0[2]);
      pass2(column, 3u, v1, v10_0[3], v14, v18, v20_0[3]);
      if (inside) {
        v20.w[row * 175u + column] = uvec2(f16x2_bits_native(v20_0.xy), f16x2_bits_native(v20_0.zw));
      }
    }
  }
  {
    const uint t = 2u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      vec4 v20_0;
      pass2(column, 0u, v1, v10_0[0], v14, v18, v20_0[0]);
      pass2(column, 1u, v1, v10_0[1], v14, v18, v20_0[1]);
      pass2(column, 2u, v1, v10_0[2], v14, v18, v20_0[2]);
      pass2(column, 3u, v1, v10_0[3], v14, v18, v20_0[3]);
      if (inside) {
        v20.w[row * 175u + column] = uvec2(f16x2_bits_native(v20_0.xy), f16x2_bits_native(v20_0.zw));
      }
    }
  }
  {
    const uint t = 3u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      vec4 v20_0;
      pass2(column, 0u, v1, v10_0[0], v14, v18, v20_0[0]);
      pass2(column, 1u, v1, v10_0[1], v14, v18, v20_0[1]);
      pass2(column, 2u, v1, v10_0[2], v14, v18, v20_0[2]);
      pass2(column, 3u, v1, v10_0[3], v14, v18, v20_0[3]);
      if (inside) {
        v20.w[row * 175u + column] = uvec2(f16x2_bits_native(v20_0.xy), f16x2_bits_native(v20_0.zw));
      }
    }
  }
  {
    const uint t = 4u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      vec4 v20_0;
      pass2(column, 0u, v1, v10_0[0], v14, v18, v20_0[0]);
      pass2(column, 1u, v1, v10_0[1], v14, v18, v20_0[1]);
      pass2(column, 2u, v1, v10_0[2], v14, v18, v20_0[2]);
      pass2(column, 3u, v1, v10_0[3], v14, v18, v20_0[3]);
      if (inside) {
        v20.w[row * 175u + column] = uvec2(f16x2_bits_native(v20_0.xy), f16x2_bits_native(v20_0.zw));
      }
    }
  }
  {
    const uint t = 5u;
    uint column = t * 32u + reduction_thread;
    if (column < 175u) {
      vec4 v10_0 = vec4(f16x2_values_native(v10_w0[t].x), f16x2_values_native(v10_w0[t].y));
      vec4 v20_0;
      pass2(column, 0u, v1, v10_0[0], v14, v18, v20_0[0]);
      pass2(column, 1u, v1, v10_0[1], v14, v18, v20_0[1]);
      pass2(column, 2u, v1, v10_0[2], v14, v18, v20_0[2]);
      pass2(column, 3u, v1, v10_0[3], v14, v18, v20_0[3]);
      if (inside) {
        v20.w[row * 175u + column] = uvec2(f16x2_bits_native(v20_0.xy), f16x2_bits_native(v20_0.zw));
      }
    }
  }
}

#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// segment 2 of graph "causal attention, four heads to a key": reshape, dot, reshape
// tiles of 32 x 32, 8 at a time along the sum; 4 x 4 per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } v20;  // %20 : f16[4, 16, 700, 700]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_v;  // %22 : f16[4, 4, 700, 32]
layout(set = 0, binding = 2) writeonly buffer Buffer2 { uvec2 w[]; } out_y;  // %24 : f16[4, 16, 700, 32]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared vec4 v20_e_tile[72];
shared vec4 in_v_tile[72];

// One element of the results.
void result_element(float v23_v, out float out_y_result) {
  out_y_result = v23_v;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 88u;
  uint tile = workgroup % 88u;
  uint swizzle = tile / 8u;
  uint in_swizzle = tile % 8u;
  uint tile_m = swizzle * 8u + in_swizzle % 8u;
  uint tile_n = in_swizzle / 8u;
  uint thread_m = thread / 8u;
  uint thread_n = thread % 8u;
  vec4 v23_v_sums[4];
  {
    const uint i = 0u;
    v23_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 1u;
    v23_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 2u;
    v23_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 3u;
    v23_v_sums[i] = vec4(0.0);
  }
  uvec2 v20_e_w0;
  {
    const uint u = 0u;
    uint row = thread / 2u;
    uint column = thread % 2u;
    uint m = min(tile_m * 32u + row, 2800u - 1u);
    uint chunk = min(column, 175u - 1u);
    v20_e_w0 = v20.w[batch * 490000u + m * 175u + chunk];
  }
  uvec2 in_v_w0;
  {
    const uint u = 0u;
    uint column = thread / 8u;
    uint row = thread % 8u;
    uint chunk = tile_n * 8u + row;
    uint k = min(column, 700u - 1u);
    in_v_w0 = in_v.w[batch * 5600u + chunk + k * 8u];
  }
  for (uint step = 0u; step < 88u; ++step) {
    {
      const uint u = 0u;
      uint row = thread / 2u;
      uint column = thread % 2u;
      uint m = min(tile_m * 32u + row, 2800u - 1u);
      uint chunk = min(step * 2u + column, 175u - 1u);
      vec4 v20_e_0 = vec4(f16x2_values_native(v20_e_w0.x), f16x2_values_native(v20_e_w0.y));
      if (!(step * 2u + column < 175u)) v20_e_0 = vec4(0.0);
      v20_e_tile[(column * 4u + 0u) * 9u + row / 4u][row % 4u] = v20_e_0[0];
      v20_e_tile[(column * 4u + 1u) * 9u + row / 4u][row % 4u] = v20_e_0[1];
      v20_e_tile[(column * 4u + 2u) * 9u + row / 4u][row % 4u] = v20_e_0[2];
      v20_e_tile[(column * 4u + 3u) * 9u + row / 4u][row % 4u] = v20_e_0[3];
    }
    {
      const uint u = 0u;
      uint column = thread / 8u;
      uint row = thread % 8u;
      uint chunk = tile_n * 8u + row;
      uint k = min(step * 8u + column, 700u - 1u);
      vec4 in_v_0 = vec4(f16x2_values_native(in_v_w0.x), f16x2_values_native(in_v_w0.y));
      if (!(step * 8u + column < 700u)) in_v_0 = vec4(0.0);
      in_v_tile[column * 9u + row] = in_v_0;
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 88u - 1u);
    {
      const uint u = 0u;
      uint row = thread / 2u;
      uint column = thread % 2u;
      uint m = min(tile_m * 32u + row, 2800u - 1u);
      uint chunk = min(next * 2u + column, 175u - 1u);
      v20_e_w0 = v20.w[batch * 490000u + m * 175u + chunk];
    }
    {
      const uint u = 0u;
      uint column = thread / 8u;
      uint row = thread % 8u;
      uint chunk = tile_n * 8u + row;
      uint k = min(next * 8u + column, 700u - 1u);
      in_v_w0 = in_v.w[batch * 5600u + chunk + k * 8u];
    }
    for (uint k = 0u; k < 8u; ++k) {
      vec4 v20_e_factor_0 = v20_e_tile[k * 9u + thread_m];
      vec4 in_v_factor_0 = in_v_tile[k * 9u + thread_n];
      v23_v_sums[0] = fma(vec4(v20_e_factor_0.x), in_v_factor_0, v23_v_sums[0]);
      v23_v_sums[1] = fma(vec4(v20_e_factor_0.y), in_v_factor_0, v23_v_sums[1]);
      v23_v_sums[2] = fma(vec4(v20_e_factor_0.z), in_v_factor_0, v23_v_sums[2]);
      v23_v_sums[3] = fma(vec4(v20_e_factor_0.w), in_v_factor_0, v23_v_sums[3]);
    }
    barrier();
  }
  {
    const uint i = 0u;
    uint m = tile_m * 32u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 8u + g * 8u + thread_n;
      if (m < 2800u) {
        vec4 out_y_0;
        result_element(v23_v_sums[i].x, out_y_0[0]);
        result_element(v23_v_sums[i].y, out_y_0[1]);
        result_element(v23_v_sums[i].z, out_y_0[2]);
        result_element(v23_v_sums[i].w, out_y_0[3]);
        out_y.w[batch * 22400u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
  {
    const uint i = 1u;
    uint m = tile_m * 32u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 8u + g * 8u + thread_n;
      if (m < 2800u) {
        vec4 out_y_0;
        result_element(v23_v_sums[i].x, out_y_0[0]);
        result_element(v23_v_sums[i].y, out_y_0[1]);
        result_element(v23_v_sums[i].z, out_y_0[2]);
        result_element(v23_v_sums[i].w, out_y_0[3]);
        out_y.w[batch * 22400u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
  {
    const uint i = 2u;
    uint m = tile_m * 32u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 8u + g * 8u + thread_n;
      if (m < 2800u) {
        vec4 out_y_0;
        result_element(v23_v_sums[i].x, out_y_0[0]);
        result_element(v23_v_sums[i].y, out_y_0[1]);
        result_element(v23_v_sums[i].z, out_y_0[2]);
        result_element(v23_v_sums[i].w, out_y_0[3]);
        out_y.w[batch * 22400u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
  {
    const uint i = 3u;
    uint m = tile_m * 32u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 8u + g * 8u + thread_n;
      if (m < 2800u) {
        vec4 out_y_0;
        result_element(v23_v_sums[i].x, out_y_0[0]);
        result_element(v23_v_sums[i].y, out_y_0[1]);
        result_element(v23_v_sums[i].z, out_y_0[2]);
        result_element(v23_v_sums[i].w, out_y_0[3]);
        out_y.w[batch * 22400u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
}
