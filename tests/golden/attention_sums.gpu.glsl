#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "attention, and the logarithm of its sums": iota, iota, sub, le, mul, reshape, dot, reshape, ... 25 ops in all
// 64 rows per workgroup, 64 positions of the softmax at a time; 8 x 8 per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_q;  // %5 : f16[4, 16, 700, 32]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_k;  // %9 : f16[4, 4, 700, 32]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_v;  // %24 : f16[4, 4, 700, 32]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %26 : f16[4, 16, 700, 32]
layout(set = 0, binding = 4) writeonly buffer Buffer4 { uint w[]; } out_log_sum_exp;  // %30 : f32[4, 16, 700]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// `zero` is 0, which the compiler must not know: NVIDIA's takes a number that is rounded and read again for what it
// was.
float f16_round_native(uint zero, float x) {
  return f16x2_values_native(f16x2_bits_native(vec2(x, 0.0)) | zero).x;
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

bool f32_is_finite(float x) {
  return f32_magnitude_bits(x) < 0x7f800000u;
}

float f32_infinity() {
  return uintBitsToFloat(0x7f800000u);
}

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

float f32_nan() {
  return uintBitsToFloat(0x7fc00000u);
}

// Vulkan's precision, 3 ulp or 2^-21 on [0.5, 2]; -infinity at zeros, NaN below. Drivers take a denormal for the
// smallest normal number, or for zero: its bits, as a whole number, are x * 2^149, and that is a normal number.
float f32_log(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude == 0u) return -f32_infinity();
  if (f32_is_negative(x)) return f32_nan();
  precise float logarithm = log(magnitude < 0x800000u ? float(magnitude) : x);
  precise float result = magnitude < 0x800000u ? logarithm - 103.27893 : logarithm;  // 149 log(2)
  return magnitude >= 0x7f800000u ? x : result;
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

shared vec4 v7_tile[272];
shared vec4 others[272];  // of one operand, then of the other
shared vec4 weights[1040];

// One element of an operand.
void v7_factor_element(float in_q_e, out float tile_operand) {
  precise float v7 = in_q_e * 0.25;
  tile_operand = v7;
}

// The score at one position.
void score_element(uint chunk, int v1, float v10_v, out float score_result) {
  int v0 = int(chunk);
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v13 = v4 ? v10_v : uintBitsToFloat(0xff800000u);
  precise float v14 = v13;
  score_result = v14;
}

// What the exponential of a score becomes before it weights.
void weight_element(float v18, out float weight_result) {
  precise float v22 = f16_round_native(p.chunks >> 31, v18);
  weight_result = v22;
}

// One element of the results.
void result_element(uint batch, uint m, uint chunk, uint j, float v15, float v19, float v25_v, out float out_y_result) {
  precise float v21 = f32_div(v25_v, v19);
  precise float v22_v = v21;
  bool v27 = f32_is_finite(v15);
  precise float v28 = f32_log(v19);
  precise float v29 = v28 + v15;
  precise float out_log_sum_exp_v = v27 ? v29 : v15;
  out_y_result = v22_v;
  if (((j + chunk * 4u) == 0u)) {
    out_log_sum_exp.w[batch * 2800u + m] = floatBitsToUint(out_log_sum_exp_v);
  }
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 44u;
  // Tiles that visit the most blocks begin first, so that none of them is left to the end.
  uint tile_m = 44u - 1u - workgroup % 44u;
  // Threads that share rows are neighbours in a subgroup.
  uint owner = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint thread_m = owner / 8u;
  uint thread_k = owner % 8u;
  float most[8];
  float total[8];
  vec4 scores[16];
  vec4 sums[8];
  [[unroll]] for (uint i = 0u; i < 8u; ++i) {
    most[i] = uintBitsToFloat(0xff800000u);
    total[i] = 0.0;
    [[unroll]] for (uint g = 0u; g < 1u; ++g) sums[i * 1u + g] = vec4(0.0);
  }
  // Blocks in which the mask leaves some row something.
  int lowest = int((tile_m * 64u) % 700u);
  int highest = min(lowest + 63, int(700u) - 1);
  // A tile that crosses into the next run counts as having every position of a run.
  if (lowest + 63 > highest) lowest = 0;
  int last = int(700u) - 1;
  last = min(last, highest);
  uint end = uint(max(last, -1) + 64) / 64u;
  uvec4 in_q_e_w0[2];
  uvec4 in_k_e_w0[2];
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 64u + thread;
    uint row = unit / 2u;
    uint column = unit % 2u;
    uint m = min(tile_m * 64u + row, 2800u - 1u);
    uint chunk = column;
    in_q_e_w0[u] = in_q.w[batch * 11200u + m * 4u + chunk];
  }
  uvec4 in_v_w0;
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 64u + thread;
    uint row = unit / 2u;
    uint column = unit % 2u;
    uint k = min(row, 700u - 1u);
    uint chunk = column;
    in_k_e_w0[u] = in_k.w[batch * 2800u + k * 4u + chunk];
  }
  [[dont_unroll]] for (uint block = 0u; block < end; ++block) {
    [[unroll]] for (uint i = 0u; i < 16u; ++i) scores[i] = vec4(0.0);
    [[dont_unroll]] for (uint slice = 0u; slice < 2u; ++slice) {
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 64u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint m = min(tile_m * 64u + row, 2800u - 1u);
        uint chunk = slice * 2u + column;
        vec4 in_q_e_0 = vec4(f16x2_values_native(in_q_e_w0[u].x), f16x2_values_native(in_q_e_w0[u].y));
        vec4 factor_0;
        v7_factor_element(in_q_e_0[0], factor_0[0]);
        v7_factor_element(in_q_e_0[1], factor_0[1]);
        v7_factor_element(in_q_e_0[2], factor_0[2]);
        v7_factor_element(in_q_e_0[3], factor_0[3]);
        v7_tile[(column * 8u + 0u) * 17u + row / 4u][row % 4u] = factor_0[0];
        v7_tile[(column * 8u + 1u) * 17u + row / 4u][row % 4u] = factor_0[1];
        v7_tile[(column * 8u + 2u) * 17u + row / 4u][row % 4u] = factor_0[2];
        v7_tile[(column * 8u + 3u) * 17u + row / 4u][row % 4u] = factor_0[3];
        vec4 in_q_e_1 = vec4(f16x2_values_native(in_q_e_w0[u].z), f16x2_values_native(in_q_e_w0[u].w));
        vec4 factor_1;
        v7_factor_element(in_q_e_1[0], factor_1[0]);
        v7_factor_element(in_q_e_1[1], factor_1[1]);
        v7_factor_element(in_q_e_1[2], factor_1[2]);
        v7_factor_element(in_q_e_1[3], factor_1[3]);
        v7_tile[(column * 8u + 4u) * 17u + row / 4u][row % 4u] = factor_1[0];
        v7_tile[(column * 8u + 5u) * 17u + row / 4u][row % 4u] = factor_1[1];
        v7_tile[(column * 8u + 6u) * 17u + row / 4u][row % 4u] = factor_1[2];
        v7_tile[(column * 8u + 7u) * 17u + row / 4u][row % 4u] = factor_1[3];
      }
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 64u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint k = min(block * 64u + row, 700u - 1u);
        uint chunk = slice * 2u + column;
        vec4 in_k_e_0 = vec4(f16x2_values_native(in_k_e_w0[u].x), f16x2_values_native(in_k_e_w0[u].y));
        others[(column * 8u + 0u) * 17u + row / 4u][row % 4u] = in_k_e_0[0];
        others[(column * 8u + 1u) * 17u + row / 4u][row % 4u] = in_k_e_0[1];
        others[(column * 8u + 2u) * 17u + row / 4u][row % 4u] = in_k_e_0[2];
        others[(column * 8u + 3u) * 17u + row / 4u][row % 4u] = in_k_e_0[3];
        vec4 in_k_e_1 = vec4(f16x2_values_native(in_k_e_w0[u].z), f16x2_values_native(in_k_e_w0[u].w));
        others[(column * 8u + 4u) * 17u + row / 4u][row % 4u] = in_k_e_1[0];
        others[(column * 8u + 5u) * 17u + row / 4u][row % 4u] = in_k_e_1[1];
        others[(column * 8u + 6u) * 17u + row / 4u][row % 4u] = in_k_e_1[2];
        others[(column * 8u + 7u) * 17u + row / 4u][row % 4u] = in_k_e_1[3];
      }
      barrier();
      // The next slice is in flight while this one is multiplied.
      uint next_slice = (slice + 1u) % 2u;
      uint next_block = min(block + (slice + 1u) / 2u, end - 1u);
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 64u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint m = min(tile_m * 64u + row, 2800u - 1u);
        uint chunk = next_slice * 2u + column;
        in_q_e_w0[u] = in_q.w[batch * 11200u + m * 4u + chunk];
      }
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 64u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint k = min(next_block * 64u + row, 700u - 1u);
        uint chunk = next_slice * 2u + column;
        in_k_e_w0[u] = in_k.w[batch * 2800u + k * 4u + chunk];
      }
      [[dont_unroll]] for (uint start = 0u; start < 16u; start += 4u) {
        [[unroll]] for (uint d = start; d < start + 4u; ++d) {
          vec4 first_0 = v7_tile[d * 17u + thread_m * 2u];
          vec4 first_1 = v7_tile[d * 17u + thread_m * 2u + 1u];
          vec4 second_0 = others[d * 17u + thread_k];
          vec4 second_1 = others[d * 17u + 8u + thread_k];
          scores[0] = fma(vec4(first_0.x), second_0, scores[0]);
          scores[1] = fma(vec4(first_0.x), second_1, scores[1]);
          scores[2] = fma(vec4(first_0.y), second_0, scores[2]);
          scores[3] = fma(vec4(first_0.y), second_1, scores[3]);
          scores[4] = fma(vec4(first_0.z), second_0, scores[4]);
          scores[5] = fma(vec4(first_0.z), second_1, scores[5]);
          scores[6] = fma(vec4(first_0.w), second_0, scores[6]);
          scores[7] = fma(vec4(first_0.w), second_1, scores[7]);
          scores[8] = fma(vec4(first_1.x), second_0, scores[8]);
          scores[9] = fma(vec4(first_1.x), second_1, scores[9]);
          scores[10] = fma(vec4(first_1.y), second_0, scores[10]);
          scores[11] = fma(vec4(first_1.y), second_1, scores[11]);
          scores[12] = fma(vec4(first_1.z), second_0, scores[12]);
          scores[13] = fma(vec4(first_1.z), second_1, scores[13]);
          scores[14] = fma(vec4(first_1.w), second_0, scores[14]);
          scores[15] = fma(vec4(first_1.w), second_1, scores[15]);
        }
      }
      barrier();
    }
    // The first values are in flight while scores become weights.
    {
      const uint u = 0u;
      uint unit = thread;
      uint row = unit % 4u;
      uint column = unit / 4u;
      uint chunk = row;
      uint k = min(block * 4u * 16u + column, 700u - 1u);
      in_v_w0 = in_v.w[batch * 2800u + chunk + k * 4u];
    }
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
      float top = uintBitsToFloat(0xff800000u);
      uint m = min(tile_m * 64u + thread_m * 8u + i, 2800u - 1u);
      [[unroll]] for (uint g = 0u; g < 8u; ++g) {
        uint chunk = min(block * 64u + (g / 4u * 8u + thread_k) * 4u + g % 4u, 700u - 1u);
        uint r = m % 700u;
        int v1 = int(r);
        float score;
        score_element(chunk, v1, scores[i * 2u + g / 4u][g % 4u], score);
        if (block * 64u + (g / 4u * 8u + thread_k) * 4u + g % 4u >= 700u) score = uintBitsToFloat(0xff800000u);
        scores[i * 2u + g / 4u][g % 4u] = score;
        top = f32_max_bits(top, score);
      }
      [[unroll]] for (uint mask = 4u; mask > 0u; mask >>= 1) top = f32_max_bits(top, subgroupShuffleXor(top, mask));
      top = f32_max_bits(top, most[i]);
      float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
      precise float fallen = most[i] - base;
      float scale = f32_exp(fallen);
      most[i] = top;
      total[i] *= scale;
      [[unroll]] for (uint g = 0u; g < 1u; ++g) sums[i * 1u + g] *= scale;
      [[unroll]] for (uint g = 0u; g < 2u; ++g) scores[i * 2u + g] -= base;
    }
    [[unroll]] for (uint g = 0u; g < 8u; ++g) {
      uint own = (g / 4u * 8u + thread_k) * 4u + g % 4u;
      uint chunk = min(block * 64u + own, 700u - 1u);
      [[unroll]] for (uint q = 0u; q < 2u; ++q) {
        vec4 weight;
        [[unroll]] for (uint e = 0u; e < 4u; ++e) {
          uint i = q * 4u + e;
          float power = f32_exp(scores[i * 2u + g / 4u][g % 4u]);
          total[i] += power;
          uint m = min(tile_m * 64u + thread_m * 8u + i, 2800u - 1u);
          weight_element(power, weight[e]);
        }
        weights[own * 16u + own / 4u + thread_m * 2u + q] = weight;
      }
    }
    [[dont_unroll]] for (uint slice = 0u; slice < 4u; ++slice) {
      uint values = block * 4u + slice;
      {
        const uint u = 0u;
        uint unit = thread;
        uint row = unit % 4u;
        uint column = unit / 4u;
        uint chunk = row;
        uint k = min(values * 16u + column, 700u - 1u);
        vec4 in_v_0 = vec4(f16x2_values_native(in_v_w0.x), f16x2_values_native(in_v_w0.y));
        if (!(values * 16u + column < 700u)) in_v_0 = vec4(0.0);
        others[column * 9u + row * 2u + 0u] = in_v_0;
        vec4 in_v_1 = vec4(f16x2_values_native(in_v_w0.z), f16x2_values_native(in_v_w0.w));
        if (!(values * 16u + column < 700u)) in_v_1 = vec4(0.0);
        others[column * 9u + row * 2u + 1u] = in_v_1;
      }
      barrier();
      // The next slice is in flight while this one is multiplied.
      uint next = block * 4u + min(slice + 1u, 3u);
      {
        const uint u = 0u;
        uint unit = thread;
        uint row = unit % 4u;
        uint column = unit / 4u;
        uint chunk = row;
        uint k = min(next * 16u + column, 700u - 1u);
        in_v_w0 = in_v.w[batch * 2800u + chunk + k * 4u];
      }
      [[dont_unroll]] for (uint start = 0u; start < 16u; start += 4u) {
        [[unroll]] for (uint k = start; k < start + 4u; ++k) {
          uint own = slice * 16u + k;
          vec4 weight_0 = weights[own * 16u + own / 4u + thread_m * 2u];
          vec4 weight_1 = weights[own * 16u + own / 4u + thread_m * 2u + 1u];
          [[unroll]] for (uint g = 0u; g < 1u; ++g) {
            vec4 third = others[k * 9u + g * 8u + thread_k];
            sums[0u + g] = fma(vec4(weight_0.x), third, sums[0u + g]);
            sums[1u + g] = fma(vec4(weight_0.y), third, sums[1u + g]);
            sums[2u + g] = fma(vec4(weight_0.z), third, sums[2u + g]);
            sums[3u + g] = fma(vec4(weight_0.w), third, sums[3u + g]);
            sums[4u + g] = fma(vec4(weight_1.x), third, sums[4u + g]);
            sums[5u + g] = fma(vec4(weight_1.y), third, sums[5u + g]);
            sums[6u + g] = fma(vec4(weight_1.z), third, sums[6u + g]);
            sums[7u + g] = fma(vec4(weight_1.w), third, sums[7u + g]);
          }
        }
      }
      barrier();
    }
  }
  [[unroll]] for (uint i = 0u; i < 8u; ++i) {
    uint m = tile_m * 64u + thread_m * 8u + i;
    float whole = total[i];
    [[unroll]] for (uint mask = 4u; mask > 0u; mask >>= 1) whole = whole + subgroupShuffleXor(whole, mask);
    // An infinite or undefined maximum leaves no number.
    if (f32_magnitude_bits(most[i]) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);
    [[unroll]] for (uint g = 0u; g < 1u; ++g) {
      uint chunk = g * 8u + thread_k;
      if (m < 2800u) {
        vec4 out_y_0;
        result_element(batch, m, chunk, 0u, most[i], whole, sums[i * 1u + g].x, out_y_0[0]);
        result_element(batch, m, chunk, 1u, most[i], whole, sums[i * 1u + g].y, out_y_0[1]);
        result_element(batch, m, chunk, 2u, most[i], whole, sums[i * 1u + g].z, out_y_0[2]);
        result_element(batch, m, chunk, 3u, most[i], whole, sums[i * 1u + g].w, out_y_0[3]);
        out_y.w[batch * 22400u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
}
