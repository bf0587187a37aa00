#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "attention with a bias and a mask": mul, dot
// tiles of 64 x 64, 16 at a time along the sum; 4 x 4 per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } in_q;  // %1 : f16[2, 4, 256, 64]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_k;  // %4 : f16[2, 4, 256, 64]
layout(set = 0, binding = 2) writeonly buffer Buffer2 { uvec2 w[]; } v5;  // %5 : f16[2, 4, 256, 256]

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
void result_element(float v5_v, out float v5_result) {
  v5_result = v5_v;
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
      vec4 v5_0;
      result_element(v5_v_sums[i].x, v5_0[0]);
      result_element(v5_v_sums[i].y, v5_0[1]);
      result_element(v5_v_sums[i].z, v5_0[2]);
      result_element(v5_v_sums[i].w, v5_0[3]);
      v5.w[batch * 16384u + m * 64u + chunk] = uvec2(f16x2_bits_native(v5_0.xy), f16x2_bits_native(v5_0.zw));
    }
  }
}

#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 1 of graph "attention with a bias and a mask": add, select, reduce_max, reshape, sub, exp, reduce_sum, reshape, ... 10 ops in all
// 32 rows per workgroup, 64 positions of the softmax at a time
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_mask;  // %0 : bool[2, 1, 256, 256]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } v5;  // %5 : f16[2, 4, 256, 256]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_bias;  // %6 : f16[4, 256, 256]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uvec4 w[]; } in_v;  // %17 : f16[2, 4, 256, 64]
layout(set = 0, binding = 4) writeonly buffer Buffer4 { uvec2 w[]; } out_y;  // %18 : f16[2, 4, 256, 64]

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

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

// Within 2.5 ulp, as Vulkan promises for divisors up to 2^126: a larger one is scaled down first.
float f32_div(float x, float y) {
  float scale = f32_magnitude_bits(y) >= 0x7e800000u ? 0.0625 : 1.0;
  precise float quotient = x / (y * scale) * scale;
  return quotient;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared vec4 others[1088];
shared vec4 weights[528];
shared float rows[512];  // of each row, what each thread found
shared float most[512];  // of four rows, of each thread
shared float total[512];  // of four rows, of each thread

// The score at one position.
void score_element(uint batch, uint m, uint chunk, out float score_result) {
  uint q = batch / 4u;
  uint in_mask_i = m * 256u + chunk + q * 65536u;
  bool in_mask_e = boolx4_values(in_mask.w[in_mask_i >> 2])[in_mask_i & 3u];
  uint v5_i = batch * 65536u + m * 256u + chunk;
  float v5_e = f16x2_values_native(v5.w[v5_i >> 1])[v5_i & 1u];
  uint r = batch % 4u;
  uint in_bias_i = m * 256u + chunk + r * 65536u;
  float in_bias_e = f16x2_values_native(in_bias.w[in_bias_i >> 1])[in_bias_i & 1u];
  precise float v7 = v5_e + in_bias_e;
  precise float v9 = in_mask_e ? v7 : (-10000.0);
  score_result = v9;
}

// One element of the results.
void result_element(float v10, float v14, float out_y_v, out float out_y_result) {
  precise float v16 = f32_div(out_y_v, v14);
  out_y_result = v16;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 8u;
  uint tile_m = workgroup % 8u;
  uint thread_m = thread / 16u;
  uint thread_k = thread % 16u;
  vec4 scores[4];
  vec4 sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    most[i * 128u + thread] = uintBitsToFloat(0xff800000u);
    total[i * 128u + thread] = 0.0;
    [[unroll]] for (uint g = 0u; g < 1u; ++g) sums[i * 1u + g] = vec4(0.0);
  }
  for (uint block = 0u; block < 4u; ++block) {
    [[dont_unroll]] for (uint i = 0u; i < 4u; ++i) {
      float top = uintBitsToFloat(0xff800000u);
      uint m = tile_m * 32u + thread_m * 4u + i;
      [[dont_unroll]] for (uint g = 0u; g < 4u; ++g) {
        uint chunk = block * 64u + thread_k * 4u + g;
        float score;
        score_element(batch, m, chunk, score);
        scores[0][g] = score;
        top = max(top, score);
      }
      rows[thread_k * 32u + thread_m * 4u + i] = top;
      {
        vec4 turned = scores[0];
        scores[0] = scores[1];
        scores[1] = scores[2];
        scores[2] = scores[3];
        scores[3] = turned;
      }
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
      float top = uintBitsToFloat(0xff800000u);
      [[dont_unroll]] for (uint g = 0u; g < 16u; ++g) top = max(top, rows[g * 32u + thread_m * 4u + i]);
      top = max(top, most[i * 128u + thread]);
      float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
      precise float fallen = most[i * 128u + thread] - base;
      float scale = f32_exp(fallen);
      most[i * 128u + thread] = top;
      total[i * 128u + thread] *= scale;
      [[unroll]] for (uint g = 0u; g < 1u; ++g) sums[i * 1u + g] *= scale;
      scores[i] -= base;
    }
    [[dont_unroll]] for (uint g = 0u; g < 4u; ++g) {
      uint own = thread_k * 4u + g;
      vec4 weight;
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        float power = f32_exp(scores[i][g]);
        total[i * 128u + thread] += power;
        weight[i] = power;
      }
      weights[own * 8u + own / 4u + thread_m] = weight;
    }
    // One load at a time: lanes have few registers.
    [[dont_unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint unit = u * 128u + thread;
      uint row = unit % 8u;
      uint column = unit / 8u;
      uint chunk = row;
      uint k = block * 64u + column;
      uvec4 in_v_w0 = in_v.w[batch * 2048u + chunk + k * 8u];
      vec4 in_v_0 = vec4(f16x2_values_native(in_v_w0.x), f16x2_values_native(in_v_w0.y));
      others[column * 17u + row * 2u + 0u] = in_v_0;
      vec4 in_v_1 = vec4(f16x2_values_native(in_v_w0.z), f16x2_values_native(in_v_w0.w));
      others[column * 17u + row * 2u + 1u] = in_v_1;
    }
    barrier();
    for (uint k = 0u; k < 64u; ++k) {
      vec4 weight = weights[k * 8u + k / 4u + thread_m];
      [[unroll]] for (uint g = 0u; g < 1u; ++g) {
        vec4 third = others[k * 17u + g * 16u + thread_k];
        sums[0u + g] = fma(vec4(weight.x), third, sums[0u + g]);
        sums[1u + g] = fma(vec4(weight.y), third, sums[1u + g]);
        sums[2u + g] = fma(vec4(weight.z), third, sums[2u + g]);
        sums[3u + g] = fma(vec4(weight.w), third, sums[3u + g]);
      }
    }
    barrier();
  }
  [[unroll]] for (uint i = 0u; i < 4u; ++i) rows[thread_k * 32u + thread_m * 4u + i] = total[i * 128u + thread];
  barrier();
  [[dont_unroll]] for (uint i = 0u; i < 4u; ++i) {
    uint m = tile_m * 32u + thread_m * 4u + i;
    float whole = rows[thread_m * 4u + i];
    for (uint g = 1u; g < 16u; ++g) whole += rows[g * 32u + thread_m * 4u + i];
    // An infinite or undefined maximum leaves no number.
    if (f32_magnitude_bits(most[i * 128u + thread]) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);
    [[unroll]] for (uint g = 0u; g < 1u; ++g) {
      uint chunk = g * 16u + thread_k;
      vec4 out_y_0;
      result_element(most[i * 128u + thread], whole, sums[g].x, out_y_0[0]);
      result_element(most[i * 128u + thread], whole, sums[g].y, out_y_0[1]);
      result_element(most[i * 128u + thread], whole, sums[g].z, out_y_0[2]);
      result_element(most[i * 128u + thread], whole, sums[g].w, out_y_0[3]);
      out_y.w[batch * 4096u + m * 16u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
    {
      vec4 turned = sums[0];
      sums[0] = sums[1];
      sums[1] = sums[2];
      sums[2] = sums[3];
      sums[3] = turned;
    }
  }
}
