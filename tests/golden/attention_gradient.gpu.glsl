#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "the gradient of keys": iota, iota, sub, le, dot, select, cast, sub, ... 17 ops in all
// 128 rows per workgroup, 64 positions of the sum at a time; 8 x 8 per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_q;  // %5 : f16[4, 8, 700, 32]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_k;  // %6 : f16[4, 8, 700, 32]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_largest;  // %11 : f32[4, 8, 700, 1]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uint w[]; } in_log_total;  // %13 : f32[4, 8, 700, 1]
layout(set = 0, binding = 4) readonly buffer Buffer4 { uvec4 w[]; } in_cotangent;  // %16 : f16[4, 8, 700, 48]
layout(set = 0, binding = 5) readonly buffer Buffer5 { uvec4 w[]; } in_v;  // %17 : f16[4, 8, 700, 48]
layout(set = 0, binding = 6) readonly buffer Buffer6 { uint w[]; } in_subtracted;  // %20 : f32[4, 8, 700, 1]
layout(set = 0, binding = 7) writeonly buffer Buffer7 { uvec2 w[]; } out_y;  // %26 : f16[4, 8, 700, 32]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

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

shared vec4 in_k_e_tile[528];  // of one product, then of the other
shared vec4 others[272];  // of one operand, then of the other
shared vec4 weights[2064];

// The weight at one position.
void score_element(uint chunk, float in_largest_e, float in_log_total_e, float in_subtracted_e, int v0, float v7_v, float v18_v, out float score_result) {
  int v1 = int(chunk);
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v9 = v4 ? v7_v : uintBitsToFloat(0xff800000u);
  precise float v10 = v9;
  precise float v12 = v10 - in_largest_e;
  precise float v14 = v12 - in_log_total_e;
  precise float v15 = f32_exp(v14);
  precise float v19 = v18_v;
  precise float v21 = v19 - in_subtracted_e;
  precise float v22 = v15 * v21;
  precise float v23 = f16_round_native(p.chunks >> 31, v22);
  precise float v25 = v4 ? v23 : 0.0;
  score_result = v25;
}

// One element of the results.
void result_element(float out_y_v, out float out_y_result) {
  out_y_result = out_y_v;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 6u;
  uint tile_m = workgroup % 6u;
  // Threads that share rows are neighbours in a subgroup.
  uint owner = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint thread_m = owner / 8u;
  uint thread_k = owner % 8u;
  vec4 scores[16];
  vec4 products[16];
  vec4 sums[8];
  [[unroll]] for (uint i = 0u; i < 8u; ++i) {
    [[unroll]] for (uint g = 0u; g < 1u; ++g) sums[i * 1u + g] = vec4(0.0);
  }
  // Blocks in which the mask leaves some row something.
  int lowest = int(tile_m * 128u);
  int highest = min(lowest + 127, int(700u) - 1);
  int last = int(700u) - 1;
  int first = 0;
  first = max(first, lowest);
  uint end = uint(max(last, -1) + 64) / 64u;
  uint begin = uint(first) / 64u;
  uvec4 in_k_e_w0[2];
  uvec4 in_q_e1_w0;
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 2u;
    uint column = unit % 2u;
    uint m = min(tile_m * 128u + row, 700u - 1u);
    uint chunk = column;
    in_k_e_w0[u] = in_k.w[batch * 2800u + m * 4u + chunk];
  }
  uvec4 in_v_e_w0[2];
  uvec4 in_cotangent_e_w0;
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 128u + thread;
    uint row = unit / 2u;
    uint column = unit % 2u;
    uint m = min(tile_m * 128u + row, 700u - 1u);
    uint chunk = column;
    in_v_e_w0[u] = in_v.w[batch * 4200u + m * 6u + chunk];
  }
  uvec4 in_q_e_w0;
  uint first_block = min(begin, 11u - 1u);
  {
    const uint u = 0u;
    uint unit = thread;
    uint row = unit / 2u;
    uint column = unit % 2u;
    uint k = min(first_block * 64u + row, 700u - 1u);
    uint chunk = column;
    in_q_e1_w0 = in_q.w[batch * 2800u + k * 4u + chunk];
  }
  {
    const uint u = 0u;
    uint unit = thread;
    uint row = unit / 2u;
    uint column = unit % 2u;
    uint k = min(first_block * 64u + row, 700u - 1u);
    uint chunk = column;
    in_cotangent_e_w0 = in_cotangent.w[batch * 4200u + k * 6u + chunk];
  }
  [[dont_unroll]] for (uint block = begin; block < end; ++block) {
    [[unroll]] for (uint i = 0u; i < 16u; ++i) scores[i] = vec4(0.0);
    [[dont_unroll]] for (uint slice = 0u; slice < 2u; ++slice) {
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 128u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint m = min(tile_m * 128u + row, 700u - 1u);
        uint chunk = slice * 2u + column;
        vec4 in_k_e_0 = vec4(f16x2_values_native(in_k_e_w0[u].x), f16x2_values_native(in_k_e_w0[u].y));
        in_k_e_tile[(column * 8u + 0u) * 33u + row / 4u][row % 4u] = in_k_e_0[0];
        in_k_e_tile[(column * 8u + 1u) * 33u + row / 4u][row % 4u] = in_k_e_0[1];
        in_k_e_tile[(column * 8u + 2u) * 33u + row / 4u][row % 4u] = in_k_e_0[2];
        in_k_e_tile[(column * 8u + 3u) * 33u + row / 4u][row % 4u] = in_k_e_0[3];
        vec4 in_k_e_1 = vec4(f16x2_values_native(in_k_e_w0[u].z), f16x2_values_native(in_k_e_w0[u].w));
        in_k_e_tile[(column * 8u + 4u) * 33u + row / 4u][row % 4u] = in_k_e_1[0];
        in_k_e_tile[(column * 8u + 5u) * 33u + row / 4u][row % 4u] = in_k_e_1[1];
        in_k_e_tile[(column * 8u + 6u) * 33u + row / 4u][row % 4u] = in_k_e_1[2];
        in_k_e_tile[(column * 8u + 7u) * 33u + row / 4u][row % 4u] = in_k_e_1[3];
      }
      {
        const uint u = 0u;
        uint unit = thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint k = min(block * 64u + row, 700u - 1u);
        uint chunk = slice * 2u + column;
        vec4 in_q_e1_0 = vec4(f16x2_values_native(in_q_e1_w0.x), f16x2_values_native(in_q_e1_w0.y));
        others[(column * 8u + 0u) * 17u + row / 4u][row % 4u] = in_q_e1_0[0];
        others[(column * 8u + 1u) * 17u + row / 4u][row % 4u] = in_q_e1_0[1];
        others[(column * 8u + 2u) * 17u + row / 4u][row % 4u] = in_q_e1_0[2];
        others[(column * 8u + 3u) * 17u + row / 4u][row % 4u] = in_q_e1_0[3];
        vec4 in_q_e1_1 = vec4(f16x2_values_native(in_q_e1_w0.z), f16x2_values_native(in_q_e1_w0.w));
        others[(column * 8u + 4u) * 17u + row / 4u][row % 4u] = in_q_e1_1[0];
        others[(column * 8u + 5u) * 17u + row / 4u][row % 4u] = in_q_e1_1[1];
        others[(column * 8u + 6u) * 17u + row / 4u][row % 4u] = in_q_e1_1[2];
        others[(column * 8u + 7u) * 17u + row / 4u][row % 4u] = in_q_e1_1[3];
      }
      barrier();
      // The next slice is in flight while this one is multiplied.
      uint next_slice = (slice + 1u) % 2u;
      uint next_block = min(block + (slice + 1u) / 2u, end - 1u);
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 128u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint m = min(tile_m * 128u + row, 700u - 1u);
        uint chunk = next_slice * 2u + column;
        in_k_e_w0[u] = in_k.w[batch * 2800u + m * 4u + chunk];
      }
      {
        const uint u = 0u;
        uint unit = thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint k = min(next_block * 64u + row, 700u - 1u);
        uint chunk = next_slice * 2u + column;
        in_q_e1_w0 = in_q.w[batch * 2800u + k * 4u + chunk];
      }
      [[dont_unroll]] for (uint start = 0u; start < 16u; start += 4u) {
        [[unroll]] for (uint d = start; d < start + 4u; ++d) {
          vec4 first_0 = in_k_e_tile[d * 33u + thread_m * 2u];
          vec4 first_1 = in_k_e_tile[d * 33u + thread_m * 2u + 1u];
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
    [[unroll]] for (uint i = 0u; i < 16u; ++i) products[i] = vec4(0.0);
    [[dont_unroll]] for (uint slice = 0u; slice < 3u; ++slice) {
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 128u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint m = min(tile_m * 128u + row, 700u - 1u);
        uint chunk = slice * 2u + column;
        vec4 in_v_e_0 = vec4(f16x2_values_native(in_v_e_w0[u].x), f16x2_values_native(in_v_e_w0[u].y));
        in_k_e_tile[(column * 8u + 0u) * 33u + row / 4u][row % 4u] = in_v_e_0[0];
        in_k_e_tile[(column * 8u + 1u) * 33u + row / 4u][row % 4u] = in_v_e_0[1];
        in_k_e_tile[(column * 8u + 2u) * 33u + row / 4u][row % 4u] = in_v_e_0[2];
        in_k_e_tile[(column * 8u + 3u) * 33u + row / 4u][row % 4u] = in_v_e_0[3];
        vec4 in_v_e_1 = vec4(f16x2_values_native(in_v_e_w0[u].z), f16x2_values_native(in_v_e_w0[u].w));
        in_k_e_tile[(column * 8u + 4u) * 33u + row / 4u][row % 4u] = in_v_e_1[0];
        in_k_e_tile[(column * 8u + 5u) * 33u + row / 4u][row % 4u] = in_v_e_1[1];
        in_k_e_tile[(column * 8u + 6u) * 33u + row / 4u][row % 4u] = in_v_e_1[2];
        in_k_e_tile[(column * 8u + 7u) * 33u + row / 4u][row % 4u] = in_v_e_1[3];
      }
      {
        const uint u = 0u;
        uint unit = thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint k = min(block * 64u + row, 700u - 1u);
        uint chunk = slice * 2u + column;
        vec4 in_cotangent_e_0 = vec4(f16x2_values_native(in_cotangent_e_w0.x), f16x2_values_native(in_cotangent_e_w0.y));
        others[(column * 8u + 0u) * 17u + row / 4u][row % 4u] = in_cotangent_e_0[0];
        others[(column * 8u + 1u) * 17u + row / 4u][row % 4u] = in_cotangent_e_0[1];
        others[(column * 8u + 2u) * 17u + row / 4u][row % 4u] = in_cotangent_e_0[2];
        others[(column * 8u + 3u) * 17u + row / 4u][row % 4u] = in_cotangent_e_0[3];
        vec4 in_cotangent_e_1 = vec4(f16x2_values_native(in_cotangent_e_w0.z), f16x2_values_native(in_cotangent_e_w0.w));
        others[(column * 8u + 4u) * 17u + row / 4u][row % 4u] = in_cotangent_e_1[0];
        others[(column * 8u + 5u) * 17u + row / 4u][row % 4u] = in_cotangent_e_1[1];
        others[(column * 8u + 6u) * 17u + row / 4u][row % 4u] = in_cotangent_e_1[2];
        others[(column * 8u + 7u) * 17u + row / 4u][row % 4u] = in_cotangent_e_1[3];
      }
      barrier();
      // The next slice is in flight while this one is multiplied.
      uint next_slice = (slice + 1u) % 3u;
      uint next_block = min(block + (slice + 1u) / 3u, end - 1u);
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 128u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint m = min(tile_m * 128u + row, 700u - 1u);
        uint chunk = next_slice * 2u + column;
        in_v_e_w0[u] = in_v.w[batch * 4200u + m * 6u + chunk];
      }
      {
        const uint u = 0u;
        uint unit = thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint k = min(next_block * 64u + row, 700u - 1u);
        uint chunk = next_slice * 2u + column;
        in_cotangent_e_w0 = in_cotangent.w[batch * 4200u + k * 6u + chunk];
      }
      [[dont_unroll]] for (uint start = 0u; start < 16u; start += 4u) {
        [[unroll]] for (uint d = start; d < start + 4u; ++d) {
          vec4 first_0 = in_k_e_tile[d * 33u + thread_m * 2u];
          vec4 first_1 = in_k_e_tile[d * 33u + thread_m * 2u + 1u];
          vec4 second_0 = others[d * 17u + thread_k];
          vec4 second_1 = others[d * 17u + 8u + thread_k];
          products[0] = fma(vec4(first_0.x), second_0, products[0]);
          products[1] = fma(vec4(first_0.x), second_1, products[1]);
          products[2] = fma(vec4(first_0.y), second_0, products[2]);
          products[3] = fma(vec4(first_0.y), second_1, products[3]);
          products[4] = fma(vec4(first_0.z), second_0, products[4]);
          products[5] = fma(vec4(first_0.z), second_1, products[5]);
          products[6] = fma(vec4(first_0.w), second_0, products[6]);
          products[7] = fma(vec4(first_0.w), second_1, products[7]);
          products[8] = fma(vec4(first_1.x), second_0, products[8]);
          products[9] = fma(vec4(first_1.x), second_1, products[9]);
          products[10] = fma(vec4(first_1.y), second_0, products[10]);
          products[11] = fma(vec4(first_1.y), second_1, products[11]);
          products[12] = fma(vec4(first_1.z), second_0, products[12]);
          products[13] = fma(vec4(first_1.z), second_1, products[13]);
          products[14] = fma(vec4(first_1.w), second_0, products[14]);
          products[15] = fma(vec4(first_1.w), second_1, products[15]);
        }
      }
      barrier();
    }
    // The first values are in flight while scores become weights.
    {
      const uint u = 0u;
      uint unit = thread;
      unit = min(unit, 63u);
      uint row = unit % 4u;
      uint column = unit / 4u;
      uint chunk = row;
      uint k = min(block * 4u * 16u + column, 700u - 1u);
      in_q_e_w0 = in_q.w[batch * 2800u + chunk + k * 4u];
    }
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
      uint m = min(tile_m * 128u + thread_m * 8u + i, 700u - 1u);
      [[unroll]] for (uint g = 0u; g < 8u; ++g) {
        uint chunk = min(block * 64u + (g / 4u * 8u + thread_k) * 4u + g % 4u, 700u - 1u);
        int v0 = int(m);
        uint in_largest_e_w0 = in_largest.w[batch * 700u + chunk];
        uint in_log_total_e_w0 = in_log_total.w[batch * 700u + chunk];
        uint in_subtracted_e_w0 = in_subtracted.w[batch * 700u + chunk];
        float in_largest_e_0 = uintBitsToFloat(in_largest_e_w0);
        float in_log_total_e_0 = uintBitsToFloat(in_log_total_e_w0);
        float in_subtracted_e_0 = uintBitsToFloat(in_subtracted_e_w0);
        float score;
        score_element(chunk, in_largest_e_0, in_log_total_e_0, in_subtracted_e_0, v0, scores[i * 2u + g / 4u][g % 4u], products[i * 2u + g / 4u][g % 4u], score);
        if (block * 64u + (g / 4u * 8u + thread_k) * 4u + g % 4u >= 700u) score = 0.0;
        scores[i * 2u + g / 4u][g % 4u] = score;
      }
    }
    [[unroll]] for (uint g = 0u; g < 8u; ++g) {
      uint own = (g / 4u * 8u + thread_k) * 4u + g % 4u;
      [[unroll]] for (uint q = 0u; q < 2u; ++q) {
        vec4 weight;
        [[unroll]] for (uint e = 0u; e < 4u; ++e) {
          uint i = q * 4u + e;
          weight[e] = scores[i * 2u + g / 4u][g % 4u];
        }
        weights[own * 32u + own / 4u + thread_m * 2u + q] = weight;
      }
    }
    [[dont_unroll]] for (uint slice = 0u; slice < 4u; ++slice) {
      uint values = block * 4u + slice;
      {
        const uint u = 0u;
        uint unit = thread;
        if (unit < 64u) {
          uint row = unit % 4u;
          uint column = unit / 4u;
          uint chunk = row;
          uint k = min(values * 16u + column, 700u - 1u);
          vec4 in_q_e_0 = vec4(f16x2_values_native(in_q_e_w0.x), f16x2_values_native(in_q_e_w0.y));
          if (!(values * 16u + column < 700u)) in_q_e_0 = vec4(0.0);
          others[column * 9u + row * 2u + 0u] = in_q_e_0;
          vec4 in_q_e_1 = vec4(f16x2_values_native(in_q_e_w0.z), f16x2_values_native(in_q_e_w0.w));
          if (!(values * 16u + column < 700u)) in_q_e_1 = vec4(0.0);
          others[column * 9u + row * 2u + 1u] = in_q_e_1;
        }
      }
      barrier();
      // The next slice is in flight while this one is multiplied.
      uint next = block * 4u + min(slice + 1u, 3u);
      {
        const uint u = 0u;
        uint unit = thread;
        unit = min(unit, 63u);
        uint row = unit % 4u;
        uint column = unit / 4u;
        uint chunk = row;
        uint k = min(next * 16u + column, 700u - 1u);
        in_q_e_w0 = in_q.w[batch * 2800u + chunk + k * 4u];
      }
      [[dont_unroll]] for (uint start = 0u; start < 16u; start += 4u) {
        [[unroll]] for (uint k = start; k < start + 4u; ++k) {
          uint own = slice * 16u + k;
          vec4 weight_0 = weights[own * 32u + own / 4u + thread_m * 2u];
          vec4 weight_1 = weights[own * 32u + own / 4u + thread_m * 2u + 1u];
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
    uint m = tile_m * 128u + thread_m * 8u + i;
    [[unroll]] for (uint g = 0u; g < 1u; ++g) {
      uint chunk = g * 8u + thread_k;
      if (m < 700u) {
        vec4 out_y_0;
        result_element(sums[i * 1u + g].x, out_y_0[0]);
        result_element(sums[i * 1u + g].y, out_y_0[1]);
        result_element(sums[i * 1u + g].z, out_y_0[2]);
        result_element(sums[i * 1u + g].w, out_y_0[3]);
        out_y.w[batch * 5600u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
}
