#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "matmul in parts": dot, add
// tiles of 64 x 128, 16 at a time along the sum; 8 x 4 per thread; 64 workgroups share a tile, dispatch 1 of 2
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // parts of tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } in_x;  // %0 : f16[120, 8192]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_w;  // %1 : f16[8192, 256]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec2 w[]; } in_bias;  // %3 : f16[256]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %4 : f16[120, 256]
layout(set = 0, binding = 4) buffer Buffer4 { uvec4 w[]; } partials;  // of the workgroups that share a tile

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

shared vec4 in_x_e_tile[272];
shared vec4 in_w_tile[528];

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint part = workgroup / 4u;
  workgroup = workgroup % 4u;
  uint tile_m = workgroup % 2u;
  uint tile_n = workgroup / 2u;
  uint thread_m = thread / 32u;
  uint thread_n = thread % 32u;
  vec4 v2_v_sums[8];
  [[unroll]] for (uint i = 0u; i < 8u; ++i) v2_v_sums[i] = vec4(0.0);
  uint first_step = part * 8u;
  uint end = min(first_step + 8u, 512u);
  uvec2 in_x_e_w0;
  {
    const uint u = 0u;
    uint row = thread / 4u;
    uint column = thread % 4u;
    uint m = min(tile_m * 64u + row, 120u - 1u);
    uint chunk = first_step * 4u + column;
    in_x_e_w0 = in_x.w[m * 2048u + chunk];
  }
  uvec4 in_w_w0;
  {
    const uint u = 0u;
    uint column = thread / 16u;
    uint row = thread % 16u;
    uint chunk = tile_n * 16u + row;
    uint k = first_step * 16u + column;
    in_w_w0 = in_w.w[chunk + k * 32u];
  }
  for (uint step = first_step; step < end; ++step) {
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = min(tile_m * 64u + row, 120u - 1u);
      uint chunk = step * 4u + column;
      vec4 in_x_e_0 = vec4(f16x2_values_native(in_x_e_w0.x), f16x2_values_native(in_x_e_w0.y));
      in_x_e_tile[(column * 4u + 0u) * 17u + row / 4u][row % 4u] = in_x_e_0[0];
      in_x_e_tile[(column * 4u + 1u) * 17u + row / 4u][row % 4u] = in_x_e_0[1];
      in_x_e_tile[(column * 4u + 2u) * 17u + row / 4u][row % 4u] = in_x_e_0[2];
      in_x_e_tile[(column * 4u + 3u) * 17u + row / 4u][row % 4u] = in_x_e_0[3];
    }
    {
      const uint u = 0u;
      uint column = thread / 16u;
      uint row = thread % 16u;
      uint chunk = tile_n * 16u + row;
      uint k = step * 16u + column;
      vec4 in_w_0 = vec4(f16x2_values_native(in_w_w0.x), f16x2_values_native(in_w_w0.y));
      in_w_tile[column * 33u + row * 2u + 0u] = in_w_0;
      vec4 in_w_1 = vec4(f16x2_values_native(in_w_w0.z), f16x2_values_native(in_w_w0.w));
      in_w_tile[column * 33u + row * 2u + 1u] = in_w_1;
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, end - 1u);
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = min(tile_m * 64u + row, 120u - 1u);
      uint chunk = next * 4u + column;
      in_x_e_w0 = in_x.w[m * 2048u + chunk];
    }
    {
      const uint u = 0u;
      uint column = thread / 16u;
      uint row = thread % 16u;
      uint chunk = tile_n * 16u + row;
      uint k = next * 16u + column;
      in_w_w0 = in_w.w[chunk + k * 32u];
    }
    for (uint k = 0u; k < 16u; ++k) {
      vec4 in_x_e_factor_0 = in_x_e_tile[k * 17u + thread_m * 2u + 0u];
      vec4 in_x_e_factor_1 = in_x_e_tile[k * 17u + thread_m * 2u + 1u];
      vec4 in_w_factor_0 = in_w_tile[k * 33u + thread_n];
      v2_v_sums[0] = fma(vec4(in_x_e_factor_0.x), in_w_factor_0, v2_v_sums[0]);
      v2_v_sums[1] = fma(vec4(in_x_e_factor_0.y), in_w_factor_0, v2_v_sums[1]);
      v2_v_sums[2] = fma(vec4(in_x_e_factor_0.z), in_w_factor_0, v2_v_sums[2]);
      v2_v_sums[3] = fma(vec4(in_x_e_factor_0.w), in_w_factor_0, v2_v_sums[3]);
      v2_v_sums[4] = fma(vec4(in_x_e_factor_1.x), in_w_factor_0, v2_v_sums[4]);
      v2_v_sums[5] = fma(vec4(in_x_e_factor_1.y), in_w_factor_0, v2_v_sums[5]);
      v2_v_sums[6] = fma(vec4(in_x_e_factor_1.z), in_w_factor_0, v2_v_sums[6]);
      v2_v_sums[7] = fma(vec4(in_x_e_factor_1.w), in_w_factor_0, v2_v_sums[7]);
    }
    barrier();
  }
  [[unroll]] for (uint i = 0u; i < 8u; ++i) {
    uint m = tile_m * 64u + thread_m * 8u + i;
    [[unroll]] for (uint g = 0u; g < 1u; ++g) {
      uint chunk = tile_n * 32u + g * 32u + thread_n;
      if (m < 120u) {
        partials.w[part * 7680u + m * 64u + chunk] = floatBitsToUint(v2_v_sums[i * 1u + g]);
      }
    }
  }
}

#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "matmul in parts": dot, add
// joins 64 parts of every sum, dispatch 2 of 2
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // workgroups
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } in_x;  // %0 : f16[120, 8192]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_w;  // %1 : f16[8192, 256]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec2 w[]; } in_bias;  // %3 : f16[256]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %4 : f16[120, 256]
layout(set = 0, binding = 4) buffer Buffer4 { uvec4 w[]; } partials;  // of the workgroups that share a tile

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// One element of the results.
void result_element(float in_bias, float v2_v, out float out_y_result) {
  precise float out_y = v2_v + in_bias;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint unit = workgroup * 256u + thread;
  if (unit >= 7680u) return;
  uint chunk = unit % 64u;
  uint row = unit / 64u;
  uint m = row;
  vec4 v2_v_sums = uintBitsToFloat(partials.w[0u * 7680u + m * 64u + chunk]);
  [[unroll]] for (uint part = 1u; part < 64u; ++part) v2_v_sums += uintBitsToFloat(partials.w[part * 7680u + m * 64u + chunk]);
  uvec2 in_bias_w0 = in_bias.w[chunk];
  vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0.x), f16x2_values_native(in_bias_w0.y));
  vec4 out_y_0;
  result_element(in_bias_0[0], v2_v_sums.x, out_y_0[0]);
  result_element(in_bias_0[1], v2_v_sums.y, out_y_0[1]);
  result_element(in_bias_0[2], v2_v_sums.z, out_y_0[2]);
  result_element(in_bias_0[3], v2_v_sums.w, out_y_0[3]);
  out_y.w[m * 64u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
}
