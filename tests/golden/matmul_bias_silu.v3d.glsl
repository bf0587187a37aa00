#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// segment 0 of graph "matmul, bias, silu": dot, add, sigmoid, mul
// tiles of 64 x 64, 16 at a time along the sum; 4 x 4 per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } in_x;  // %0 : f16[1000, 1024]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_w;  // %1 : f16[1024, 768]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec2 w[]; } in_bias;  // %3 : f16[768]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %6 : f16[1000, 768]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// e^-x is held below 2^126, where Vulkan bounds the division.
float f16_sigmoid(float x) {
  precise float power = exp2(min(x * -1.442695, 125.0));
  precise float result = 1.0 / (1.0 + power);
  return f32_is_nan(x) ? x : result;
}

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared vec4 in_x_e_tile[272];
shared vec4 in_w_tile[272];

// One element of the results.
void result_element(float in_bias, float v2_v, out float out_y_result) {
  precise float v4 = v2_v + in_bias;
  precise float v5 = f16_sigmoid(v4);
  precise float out_y = v5 * v4;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint swizzle = workgroup / 96u;
  uint in_swizzle = workgroup % 96u;
  uint tile_m = swizzle * 8u + in_swizzle % 8u;
  uint tile_n = in_swizzle / 8u;
  uint thread_m = thread / 16u;
  uint thread_n = thread % 16u;
  vec4 v2_v_sums[4];
  {
    const uint i = 0u;
    v2_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 1u;
    v2_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 2u;
    v2_v_sums[i] = vec4(0.0);
  }
  {
    const uint i = 3u;
    v2_v_sums[i] = vec4(0.0);
  }
  uvec2 in_x_e_w0;
  {
    const uint u = 0u;
    uint row = thread / 4u;
    uint column = thread % 4u;
    uint m = min(tile_m * 64u + row, 1000u - 1u);
    uint chunk = column;
    in_x_e_w0 = in_x.w[m * 256u + chunk];
  }
  uvec2 in_w_w0;
  {
    const uint u = 0u;
    uint column = thread / 16u;
    uint row = thread % 16u;
    uint chunk = tile_n * 16u + row;
    uint k = column;
    in_w_w0 = in_w.w[chunk + k * 192u];
  }
  for (uint step = 0u; step < 64u; ++step) {
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = min(tile_m * 64u + row, 1000u - 1u);
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
      in_w_tile[column * 17u + row] = in_w_0;
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 64u - 1u);
    {
      const uint u = 0u;
      uint row = thread / 4u;
      uint column = thread % 4u;
      uint m = min(tile_m * 64u + row, 1000u - 1u);
      uint chunk = next * 4u + column;
      in_x_e_w0 = in_x.w[m * 256u + chunk];
    }
    {
      const uint u = 0u;
      uint column = thread / 16u;
      uint row = thread % 16u;
      uint chunk = tile_n * 16u + row;
      uint k = next * 16u + column;
      in_w_w0 = in_w.w[chunk + k * 192u];
    }
    for (uint k = 0u; k < 16u; ++k) {
      vec4 in_x_e_factor_0 = in_x_e_tile[k * 17u + thread_m];
      vec4 in_w_factor_0 = in_w_tile[k * 17u + thread_n];
      v2_v_sums[0] = fma(vec4(in_x_e_factor_0.x), in_w_factor_0, v2_v_sums[0]);
      v2_v_sums[1] = fma(vec4(in_x_e_factor_0.y), in_w_factor_0, v2_v_sums[1]);
      v2_v_sums[2] = fma(vec4(in_x_e_factor_0.z), in_w_factor_0, v2_v_sums[2]);
      v2_v_sums[3] = fma(vec4(in_x_e_factor_0.w), in_w_factor_0, v2_v_sums[3]);
    }
    barrier();
  }
  {
    const uint i = 0u;
    uint m = tile_m * 64u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 1000u) {
        uvec2 in_bias_w0 = in_bias.w[chunk];
        vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0.x), f16x2_values_native(in_bias_w0.y));
        vec4 out_y_0;
        result_element(in_bias_0[0], v2_v_sums[i].x, out_y_0[0]);
        result_element(in_bias_0[1], v2_v_sums[i].y, out_y_0[1]);
        result_element(in_bias_0[2], v2_v_sums[i].z, out_y_0[2]);
        result_element(in_bias_0[3], v2_v_sums[i].w, out_y_0[3]);
        out_y.w[m * 192u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
  {
    const uint i = 1u;
    uint m = tile_m * 64u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 1000u) {
        uvec2 in_bias_w0 = in_bias.w[chunk];
        vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0.x), f16x2_values_native(in_bias_w0.y));
        vec4 out_y_0;
        result_element(in_bias_0[0], v2_v_sums[i].x, out_y_0[0]);
        result_element(in_bias_0[1], v2_v_sums[i].y, out_y_0[1]);
        result_element(in_bias_0[2], v2_v_sums[i].z, out_y_0[2]);
        result_element(in_bias_0[3], v2_v_sums[i].w, out_y_0[3]);
        out_y.w[m * 192u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
  {
    const uint i = 2u;
    uint m = tile_m * 64u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 1000u) {
        uvec2 in_bias_w0 = in_bias.w[chunk];
        vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0.x), f16x2_values_native(in_bias_w0.y));
        vec4 out_y_0;
        result_element(in_bias_0[0], v2_v_sums[i].x, out_y_0[0]);
        result_element(in_bias_0[1], v2_v_sums[i].y, out_y_0[1]);
        result_element(in_bias_0[2], v2_v_sums[i].z, out_y_0[2]);
        result_element(in_bias_0[3], v2_v_sums[i].w, out_y_0[3]);
        out_y.w[m * 192u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
  {
    const uint i = 3u;
    uint m = tile_m * 64u + thread_m * 4u + i;
    {
      const uint g = 0u;
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 1000u) {
        uvec2 in_bias_w0 = in_bias.w[chunk];
        vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0.x), f16x2_values_native(in_bias_w0.y));
        vec4 out_y_0;
        result_element(in_bias_0[0], v2_v_sums[i].x, out_y_0[0]);
        result_element(in_bias_0[1], v2_v_sums[i].y, out_y_0[1]);
        result_element(in_bias_0[2], v2_v_sums[i].z, out_y_0[2]);
        result_element(in_bias_0[3], v2_v_sums[i].w, out_y_0[3]);
        out_y.w[m * 192u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
}
