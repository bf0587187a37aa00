#version 450
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "causal attention, four heads to a key": iota, iota, sub, le, mul, reshape, dot, reshape, ... 19 ops in all
// 32 rows per workgroup, 16 positions of the softmax at a time
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_q;  // %5 : f16[4, 16, 700, 32]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_k;  // %9 : f16[4, 4, 700, 32]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_v;  // %22 : f16[4, 4, 700, 32]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %24 : f16[4, 16, 700, 32]

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

// The value of f16 bits, exactly; NaN becomes the canonical quiet one. High bits must be zero.
float f16_value(uint bits) {
  uint sign = (bits & 0x8000u) << 16;
  uint magnitude = bits & 0x7fffu;
  uint normal = (magnitude << 13) + 0x38000000u;
  uint small = floatBitsToUint(float(magnitude) * 5.9604644775390625e-08);  // units of 2^-24: a normal f32
  uint value = magnitude >= 0x400u ? normal : small;
  value = magnitude >= 0x7c00u ? 0x7f800000u : value;
  value |= sign;
  value = magnitude > 0x7c00u ? 0x7fc00000u : value;
  return uintBitsToFloat(value);
}

vec2 f16x2_values(uint word) {
  return vec2(f16_value(word & 0xffffu), f16_value(word >> 16));
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

// The bits of the nearest f16, halves to even; NaN becomes the canonical 0x7e00. Selects, no branches: a kernel
// has many of these.
uint f16_bits(float x) {
  uint sign = floatBitsToUint(x) >> 16 & 0x8000u;
  uint magnitude = floatBitsToUint(x) & 0x7fffffffu;
  uint normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // Below 2^-14 in units of 2^-24; what a device may flush to zero is far below half of one.
  precise float units = roundEven(uintBitsToFloat(min(magnitude, 0x38800000u)) * 16777216.0);
  uint small = uint(units);
  uint bits = magnitude >= 0x38800000u ? normal : small;
  bits = magnitude >= 0x477ff000u ? 0x7c00u : bits;  // from 65520 on
  bits |= sign;
  return magnitude > 0x7f800000u ? 0x7e00u : bits;
}

uint f16x2_bits(vec2 v) {
  return f16_bits(v.x) | (f16_bits(v.y) << 16);
}

shared vec4 v7_tile[144];
shared vec4 others[144];  // of one operand, then of the other
shared vec4 weights[132];
shared float rows[128];  // of each row, what each thread found

// One element of an operand.
void v7_factor_element(float in_q_e, out float tile_operand) {
  precise float v7 = in_q_e * 0.17675781;
  tile_operand = v7;
}

// The score at one position.
void score_element(uint chunk, int v1, float v10_v, out float score_result) {
  int v0 = int(chunk);
  int v2 = v0 - v1;
  bool v4 = v2 <= 0;
  precise float v13 = v4 ? v10_v : uintBitsToFloat(0xff800000u);
  score_result = v13;
}

// One element of the results.
void result_element(float v14, float v18, float v23_v, out float out_y_result) {
  precise float v20 = f32_div(v23_v, v18);
  out_y_result = v20;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint batch = workgroup / 88u;
  // Tiles that visit the most blocks begin first, so that none of them is left to the end.
  uint tile_m = 88u - 1u - workgroup % 88u;
  uint thread_m = thread / 4u;
  uint thread_k = thread % 4u;
  float most[4];
  float total[4];
  vec4 scores[4];
  vec4 sums[8];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    most[i] = uintBitsToFloat(0xff800000u);
    total[i] = 0.0;
    [[unroll]] for (uint g = 0u; g < 2u; ++g) sums[i * 2u + g] = vec4(0.0);
  }
  // Blocks in which the mask leaves some row something.
  int lowest = int((tile_m * 32u) % 700u);
  int highest = min(lowest + 31, int(700u) - 1);
  // A tile that crosses into the next run counts as having every position of a run.
  if (lowest + 31 > highest) lowest = 0;
  int last = int(700u) - 1;
  last = min(last, highest);
  uint end = uint(max(last, -1) + 16) / 16u;
  uvec4 in_q_e_w0[2];
  uvec4 in_k_e_w0;
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 32u + thread;
    uint row = unit / 2u;
    uint column = unit % 2u;
    uint m = min(tile_m * 32u + row, 2800u - 1u);
    uint chunk = column;
    in_q_e_w0[u] = in_q.w[batch * 11200u + m * 4u + chunk];
  }
  uvec4 in_v_w0[2];
  {
    const uint u = 0u;
    uint unit = thread;
    uint row = unit / 2u;
    uint column = unit % 2u;
    uint k = min(row, 700u - 1u);
    uint chunk = column;
    in_k_e_w0 = in_k.w[batch * 2800u + k * 4u + chunk];
  }
  [[dont_unroll]] for (uint block = 0u; block < end; ++block) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) scores[i] = vec4(0.0);
    [[dont_unroll]] for (uint slice = 0u; slice < 2u; ++slice) {
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 32u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint m = min(tile_m * 32u + row, 2800u - 1u);
        uint chunk = slice * 2u + column;
        vec4 in_q_e_0 = vec4(f16x2_values(in_q_e_w0[u].x), f16x2_values(in_q_e_w0[u].y));
        vec4 factor_0;
        v7_factor_element(in_q_e_0[0], factor_0[0]);
        v7_factor_element(in_q_e_0[1], factor_0[1]);
        v7_factor_element(in_q_e_0[2], factor_0[2]);
        v7_factor_element(in_q_e_0[3], factor_0[3]);
        v7_tile[(column * 8u + 0u) * 9u + row / 4u][row % 4u] = factor_0[0];
        v7_tile[(column * 8u + 1u) * 9u + row / 4u][row % 4u] = factor_0[1];
        v7_tile[(column * 8u + 2u) * 9u + row / 4u][row % 4u] = factor_0[2];
        v7_tile[(column * 8u + 3u) * 9u + row / 4u][row % 4u] = factor_0[3];
        vec4 in_q_e_1 = vec4(f16x2_values(in_q_e_w0[u].z), f16x2_values(in_q_e_w0[u].w));
        vec4 factor_1;
        v7_factor_element(in_q_e_1[0], factor_1[0]);
        v7_factor_element(in_q_e_1[1], factor_1[1]);
        v7_factor_element(in_q_e_1[2], factor_1[2]);
        v7_factor_element(in_q_e_1[3], factor_1[3]);
        v7_tile[(column * 8u + 4u) * 9u + row / 4u][row % 4u] = factor_1[0];
        v7_tile[(column * 8u + 5u) * 9u + row / 4u][row % 4u] = factor_1[1];
        v7_tile[(column * 8u + 6u) * 9u + row / 4u][row % 4u] = factor_1[2];
        v7_tile[(column * 8u + 7u) * 9u + row / 4u][row % 4u] = factor_1[3];
      }
      {
        const uint u = 0u;
        uint unit = thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint k = min(block * 16u + row, 700u - 1u);
        uint chunk = slice * 2u + column;
        vec4 in_k_e_0 = vec4(f16x2_values(in_k_e_w0.x), f16x2_values(in_k_e_w0.y));
        others[(column * 8u + 0u) * 5u + row / 4u][row % 4u] = in_k_e_0[0];
        others[(column * 8u + 1u) * 5u + row / 4u][row % 4u] = in_k_e_0[1];
        others[(column * 8u + 2u) * 5u + row / 4u][row % 4u] = in_k_e_0[2];
        others[(column * 8u + 3u) * 5u + row / 4u][row % 4u] = in_k_e_0[3];
        vec4 in_k_e_1 = vec4(f16x2_values(in_k_e_w0.z), f16x2_values(in_k_e_w0.w));
        others[(column * 8u + 4u) * 5u + row / 4u][row % 4u] = in_k_e_1[0];
        others[(column * 8u + 5u) * 5u + row / 4u][row % 4u] = in_k_e_1[1];
        others[(column * 8u + 6u) * 5u + row / 4u][row % 4u] = in_k_e_1[2];
        others[(column * 8u + 7u) * 5u + row / 4u][row % 4u] = in_k_e_1[3];
      }
      barrier();
      // The next slice is in flight while this one is multiplied.
      uint next_slice = (slice + 1u) % 2u;
      uint next_block = min(block + (slice + 1u) / 2u, end - 1u);
      [[unroll]] for (uint u = 0u; u < 2u; ++u) {
        uint unit = u * 32u + thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint m = min(tile_m * 32u + row, 2800u - 1u);
        uint chunk = next_slice * 2u + column;
        in_q_e_w0[u] = in_q.w[batch * 11200u + m * 4u + chunk];
      }
      {
        const uint u = 0u;
        uint unit = thread;
        uint row = unit / 2u;
        uint column = unit % 2u;
        uint k = min(next_block * 16u + row, 700u - 1u);
        uint chunk = next_slice * 2u + column;
        in_k_e_w0 = in_k.w[batch * 2800u + k * 4u + chunk];
      }
      [[dont_unroll]] for (uint start = 0u; start < 16u; start += 4u) {
        [[unroll]] for (uint d = start; d < start + 4u; ++d) {
          vec4 first = v7_tile[d * 9u + thread_m];
          vec4 second = others[d * 5u + thread_k];
          scores[0] = fma(vec4(first.x), second, scores[0]);
          scores[1] = fma(vec4(first.y), second, scores[1]);
          scores[2] = fma(vec4(first.z), second, scores[2]);
          scores[3] = fma(vec4(first.w), second, scores[3]);
        }
      }
      barrier();
    }
    // The first values are in flight while scores become weights.
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 32u + thread;
      uint row = unit % 4u;
      uint column = unit / 4u;
      uint chunk = row;
      uint k = min(block * 16u + column, 700u - 1u);
      in_v_w0[u] = in_v.w[batch * 2800u + chunk + k * 4u];
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
      float top = uintBitsToFloat(0xff800000u);
      uint m = min(tile_m * 32u + thread_m * 4u + i, 2800u - 1u);
      [[unroll]] for (uint g = 0u; g < 4u; ++g) {
        uint chunk = min(block * 16u + thread_k * 4u + g, 700u - 1u);
        uint r = m % 700u;
        int v1 = int(r);
        float score;
        score_element(chunk, v1, scores[i][g], score);
        if (block * 16u + thread_k * 4u + g >= 700u) score = uintBitsToFloat(0xff800000u);
        scores[i][g] = score;
        top = max(top, score);
      }
      rows[thread_k * 32u + thread_m * 4u + i] = top;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
      float top = uintBitsToFloat(0xff800000u);
      for (uint g = 0u; g < 4u; ++g) top = max(top, rows[g * 32u + thread_m * 4u + i]);
      top = max(top, most[i]);
      float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
      precise float fallen = most[i] - base;
      float scale = f32_exp(fallen);
      most[i] = top;
      total[i] *= scale;
      [[unroll]] for (uint g = 0u; g < 2u; ++g) sums[i * 2u + g] *= scale;
      scores[i] -= base;
    }
    [[unroll]] for (uint g = 0u; g < 4u; ++g) {
      uint own = thread_k * 4u + g;
      vec4 weight;
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        float power = f32_exp(scores[i][g]);
        total[i] += power;
        weight[i] = power;
      }
      weights[own * 8u + own / 4u + thread_m] = weight;
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 32u + thread;
      uint row = unit % 4u;
      uint column = unit / 4u;
      uint chunk = row;
      uint k = min(block * 16u + column, 700u - 1u);
      vec4 in_v_0 = vec4(f16x2_values(in_v_w0[u].x), f16x2_values(in_v_w0[u].y));
      if (!(block * 16u + column < 700u)) in_v_0 = vec4(0.0);
      others[column * 9u + row * 2u + 0u] = in_v_0;
      vec4 in_v_1 = vec4(f16x2_values(in_v_w0[u].z), f16x2_values(in_v_w0[u].w));
      if (!(block * 16u + column < 700u)) in_v_1 = vec4(0.0);
      others[column * 9u + row * 2u + 1u] = in_v_1;
    }
    barrier();
    [[dont_unroll]] for (uint start = 0u; start < 16u; start += 4u) {
      [[unroll]] for (uint k = start; k < start + 4u; ++k) {
        vec4 weight = weights[k * 8u + k / 4u + thread_m];
        [[unroll]] for (uint g = 0u; g < 2u; ++g) {
          vec4 third = others[k * 9u + g * 4u + thread_k];
          sums[0u + g] = fma(vec4(weight.x), third, sums[0u + g]);
          sums[2u + g] = fma(vec4(weight.y), third, sums[2u + g]);
          sums[4u + g] = fma(vec4(weight.z), third, sums[4u + g]);
          sums[6u + g] = fma(vec4(weight.w), third, sums[6u + g]);
        }
      }
    }
    barrier();
  }
  [[unroll]] for (uint i = 0u; i < 4u; ++i) rows[thread_k * 32u + thread_m * 4u + i] = total[i];
  barrier();
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    uint m = tile_m * 32u + thread_m * 4u + i;
    float whole = rows[thread_m * 4u + i];
    for (uint g = 1u; g < 4u; ++g) whole += rows[g * 32u + thread_m * 4u + i];
    // An infinite or undefined maximum leaves no number.
    if (f32_magnitude_bits(most[i]) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);
    [[unroll]] for (uint g = 0u; g < 2u; ++g) {
      uint chunk = g * 4u + thread_k;
      if (m < 2800u) {
        vec4 out_y_0;
        result_element(most[i], whole, sums[i * 2u + g].x, out_y_0[0]);
        result_element(most[i], whole, sums[i * 2u + g].y, out_y_0[1]);
        result_element(most[i], whole, sums[i * 2u + g].z, out_y_0[2]);
        result_element(most[i], whole, sums[i * 2u + g].w, out_y_0[3]);
        out_y.w[batch * 22400u + m * 8u + chunk] = uvec2(f16x2_bits(out_y_0.xy), f16x2_bits(out_y_0.zw));
      }
    }
  }
}
