#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "causal attention, four heads to a key": iota, iota, sub, le, mul, reshape, dot, reshape, ... 19 ops in all
// 32 rows per workgroup, 32 positions of the softmax at a time
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

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
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

shared vec4 v7_tile[288];
shared vec4 others[288];  // of one operand, then of the other
shared vec4 weights[264];
shared float rows[256];  // of each row, what each thread found
shared float most[256];  // of four rows, of each thread
shared float total[256];  // of four rows, of each thread

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
  uint thread_m = thread / 8u;
  uint thread_k = thread % 8u;
  vec4 scores[4];
  vec4 sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    most[i * 64u + thread] = uintBitsToFloat(0xff800000u);
    total[i * 64u + thread] = 0.0;
    [[unroll]] for (uint g = 0u; g < 1u; ++g) sums[i * 1u + g] = vec4(0.0);
  }
  // One load at a time: lanes have few registers.
  [[dont_unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint unit = u * 64u + thread;
    uint row = unit / 4u;
    uint column = unit % 4u;
    uint m = min(tile_m * 32u + row, 2800u - 1u);
    uint chunk = column;
    uvec4 in_q_e_w0 = in_q.w[batch * 11200u + m * 4u + chunk];
    vec4 in_q_e_0 = vec4(f16x2_values_native(in_q_e_w0.x), f16x2_values_native(in_q_e_w0.y));
    vec4 factor_0;
    v7_factor_element(in_q_e_0[0], factor_0[0]);
    v7_factor_element(in_q_e_0[1], factor_0[1]);
    v7_factor_element(in_q_e_0[2], factor_0[2]);
    v7_factor_element(in_q_e_0[3], factor_0[3]);
    v7_tile[(column * 8u + 0u) * 9u + row / 4u][row % 4u] = factor_0[0];
    v7_tile[(column * 8u + 1u) * 9u + row / 4u][row % 4u] = factor_0[1];
    v7_tile[(column * 8u + 2u) * 9u + row / 4u][row % 4u] = factor_0[2];
    v7_tile[(column * 8u + 3u) * 9u + row / 4u][row % 4u] = factor_0[3];
    vec4 in_q_e_1 = vec4(f16x2_values_native(in_q_e_w0.z), f16x2_values_native(in_q_e_w0.w));
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
  // Blocks in which the mask leaves some row something.
  int lowest = int((tile_m * 32u) % 700u);
  int highest = min(lowest + 31, int(700u) - 1);
  // A tile that crosses into the next run counts as having every position of a run.
  if (lowest + 31 > highest) lowest = 0;
  int last = int(700u) - 1;
  last = min(last, highest);
  uint end = uint(max(last, -1) + 32) / 32u;
  for (uint block = 0u; block < end; ++block) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) scores[i] = vec4(0.0);
    // One load at a time: lanes have few registers.
    [[dont_unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 64u + thread;
      uint row = unit / 4u;
      uint column = unit % 4u;
      uint k = min(block * 32u + row, 700u - 1u);
      uint chunk = column;
      uvec4 in_k_e_w0 = in_k.w[batch * 2800u + k * 4u + chunk];
      vec4 in_k_e_0 = vec4(f16x2_values_native(in_k_e_w0.x), f16x2_values_native(in_k_e_w0.y));
      others[(column * 8u + 0u) * 9u + row / 4u][row % 4u] = in_k_e_0[0];
      others[(column * 8u + 1u) * 9u + row / 4u][row % 4u] = in_k_e_0[1];
      others[(column * 8u + 2u) * 9u + row / 4u][row % 4u] = in_k_e_0[2];
      others[(column * 8u + 3u) * 9u + row / 4u][row % 4u] = in_k_e_0[3];
      vec4 in_k_e_1 = vec4(f16x2_values_native(in_k_e_w0.z), f16x2_values_native(in_k_e_w0.w));
      others[(column * 8u + 4u) * 9u + row / 4u][row % 4u] = in_k_e_1[0];
      others[(column * 8u + 5u) * 9u + row / 4u][row % 4u] = in_k_e_1[1];
      others[(column * 8u + 6u) * 9u + row / 4u][row % 4u] = in_k_e_1[2];
      others[(column * 8u + 7u) * 9u + row / 4u][row % 4u] = in_k_e_1[3];
    }
    barrier();
    for (uint d = 0u; d < 32u; ++d) {
      vec4 first = v7_tile[d * 9u + thread_m];
      vec4 second = others[d * 9u + thread_k];
      scores[0] = fma(vec4(first.x), second, scores[0]);
      scores[1] = fma(vec4(first.y), second, scores[1]);
      scores[2] = fma(vec4(first.z), second, scores[2]);
      scores[3] = fma(vec4(first.w), second, scores[3]);
    }
    [[dont_unroll]] for (uint i = 0u; i < 4u; ++i) {
      float top = uintBitsToFloat(0xff800000u);
      uint m = min(tile_m * 32u + thread_m * 4u + i, 2800u - 1u);
      [[dont_unroll]] for (uint g = 0u; g < 4u; ++g) {
        uint chunk = min(block * 32u + thread_k * 4u + g, 700u - 1u);
        uint r = m % 700u;
        int v1 = int(r);
        float score;
        score_element(chunk, v1, scores[0][g], score);
        if (block * 32u + thread_k * 4u + g >= 700u) score = uintBitsToFloat(0xff800000u);
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
      [[dont_unroll]] for (uint g = 0u; g < 8u; ++g) top = max(top, rows[g * 32u + thread_m * 4u + i]);
      top = max(top, most[i * 64u + thread]);
      float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
      precise float fallen = most[i * 64u + thread] - base;
      float scale = f32_exp(fallen);
      most[i * 64u + thread] = top;
      total[i * 64u + thread] *= scale;
      [[unroll]] for (uint g = 0u; g < 1u; ++g) sums[i * 1u + g] *= scale;
      scores[i] -= base;
    }
    [[dont_unroll]] for (uint g = 0u; g < 4u; ++g) {
      uint own = thread_k * 4u + g;
      vec4 weight;
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        float power = f32_exp(scores[i][g]);
        total[i * 64u + thread] += power;
        weight[i] = power;
      }
      weights[own * 8u + own / 4u + thread_m] = weight;
    }
    // One load at a time: lanes have few registers.
    [[dont_unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint unit = u * 64u + thread;
      uint row = unit % 4u;
      uint column = unit / 4u;
      uint chunk = row;
      uint k = min(block * 32u + column, 700u - 1u);
      uvec4 in_v_w0 = in_v.w[batch * 2800u + chunk + k * 4u];
      vec4 in_v_0 = vec4(f16x2_values_native(in_v_w0.x), f16x2_values_native(in_v_w0.y));
      if (!(block * 32u + column < 700u)) in_v_0 = vec4(0.0);
      others[column * 9u + row * 2u + 0u] = in_v_0;
      vec4 in_v_1 = vec4(f16x2_values_native(in_v_w0.z), f16x2_values_native(in_v_w0.w));
      if (!(block * 32u + column < 700u)) in_v_1 = vec4(0.0);
      others[column * 9u + row * 2u + 1u] = in_v_1;
    }
    barrier();
    for (uint k = 0u; k < 32u; ++k) {
      vec4 weight = weights[k * 8u + k / 4u + thread_m];
      [[unroll]] for (uint g = 0u; g < 1u; ++g) {
        vec4 third = others[k * 9u + g * 8u + thread_k];
        sums[0u + g] = fma(vec4(weight.x), third, sums[0u + g]);
        sums[1u + g] = fma(vec4(weight.y), third, sums[1u + g]);
        sums[2u + g] = fma(vec4(weight.z), third, sums[2u + g]);
        sums[3u + g] = fma(vec4(weight.w), third, sums[3u + g]);
      }
    }
    barrier();
  }
  [[unroll]] for (uint i = 0u; i < 4u; ++i) rows[thread_k * 32u + thread_m * 4u + i] = total[i * 64u + thread];
  barrier();
  [[dont_unroll]] for (uint i = 0u; i < 4u; ++i) {
    uint m = tile_m * 32u + thread_m * 4u + i;
    float whole = rows[thread_m * 4u + i];
    for (uint g = 1u; g < 8u; ++g) whole += rows[g * 32u + thread_m * 4u + i];
    // An infinite or undefined maximum leaves no number.
    if (f32_magnitude_bits(most[i * 64u + thread]) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);
    [[unroll]] for (uint g = 0u; g < 1u; ++g) {
      uint chunk = g * 8u + thread_k;
      if (m < 2800u) {
        vec4 out_y_0;
        result_element(most[i * 64u + thread], whole, sums[g].x, out_y_0[0]);
        result_element(most[i * 64u + thread], whole, sums[g].y, out_y_0[1]);
        result_element(most[i * 64u + thread], whole, sums[g].z, out_y_0[2]);
        result_element(most[i * 64u + thread], whole, sums[g].w, out_y_0[3]);
        out_y.w[batch * 22400u + m * 8u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
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
