#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "cached_attention_shared": iota, reshape, iota, reshape, sub, max, reshape, le, ... 34 ops in all
// 4 rows per workgroup, 64 positions of the softmax at a time; 16 lanes for each of them; 16 workgroups share a tile
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // parts of tiles of rows of all softmaxes
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_starts;  // %5 : i32[1]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_q;  // %10 : f16[1, 32, 1, 128]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_keys;  // %14 : f16[1, 8, 2048, 128]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uvec4 w[]; } in_values;  // %35 : f16[1, 8, 2048, 128]
layout(set = 0, binding = 4) writeonly buffer Buffer4 { uvec2 w[]; } out_y;  // %41 : f16[1, 32, 1, 128]
layout(set = 0, binding = 5) coherent buffer Buffer5 { vec4 w[]; } partials;  // of the workgroups that share a tile
layout(set = 0, binding = 6) coherent buffer Buffer6 { uint w[]; } counts;  // of the workgroups that have left theirs

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

shared vec4 joined[1056];  // of each subgroup and row: its largest score, its total, its sums
shared uint arrived;

// One element of an operand.
void v12_factor_element(float in_q_e, out float tile_operand) {
  precise float v12 = in_q_e * 0.088378906;
  tile_operand = v12;
}

// One element of an operand.
void v37_factor_element(float in_values, bool v34, out float tile_operand) {
  precise float v37 = v34 ? in_values : 0.0;
  tile_operand = v37;
}

// The score at one position.
void score_element(uint chunk, int v2, int v7, float v15_v, out float score_result) {
  int v0 = int(chunk);
  int v4 = v0 - v2;
  bool v9 = v4 <= v7;
  precise float v17 = v15_v;
  precise float v19 = v9 ? v17 : uintBitsToFloat(0xff800000u);
  score_result = v19;
}

// What the exponential of a score becomes before it weights.
void weight_element(float v26, out float weight_result) {
  precise float v30 = f16_round_native(p.chunks >> 31, v26);
  weight_result = v30;
}

// One element of the results.
void result_element(float v20, float v27, float v38_v, out float out_y_result) {
  bool v22 = v20 == uintBitsToFloat(0xff800000u);
  precise float v29 = f32_div(v38_v, v27);
  precise float v30_v = f16_round_native(p.chunks >> 31, v29);
  precise float v39 = v22 ? 0.0 : v30_v;
  out_y_result = v39;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint part = workgroup % 16u;
  uint tile = workgroup / 16u;
  uint batch = tile / 1u;
  uint tile_m = tile % 1u;
  uint lane = gl_SubgroupInvocationID % 16u;
  uint position = gl_SubgroupID * 2u + gl_SubgroupInvocationID / 16u;  // of those of the softmax
  float most[4];
  float total[4];
  float scores[16];
  vec4 query[8];
  vec4 sums[8];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    most[i] = uintBitsToFloat(0xff800000u);
    total[i] = 0.0;
    [[unroll]] for (uint c = 0u; c < 2u; ++c) sums[i * 2u + c] = vec4(0.0);
  }
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    uint m = tile_m * 4u + i;
    [[unroll]] for (uint c = 0u; c < 1u; ++c) {
      uint chunk = c * 16u + lane;
      uvec4 in_q_e_w0 = in_q.w[batch * 64u + m * 16u + chunk];
      vec4 in_q_e_0 = vec4(f16x2_values_native(in_q_e_w0.x), f16x2_values_native(in_q_e_w0.y));
      vec4 factor_0;
      v12_factor_element(in_q_e_0[0], factor_0[0]);
      v12_factor_element(in_q_e_0[1], factor_0[1]);
      v12_factor_element(in_q_e_0[2], factor_0[2]);
      v12_factor_element(in_q_e_0[3], factor_0[3]);
      query[i * 2u + c * 2u + 0u] = factor_0;
      vec4 in_q_e_1 = vec4(f16x2_values_native(in_q_e_w0.z), f16x2_values_native(in_q_e_w0.w));
      vec4 factor_1;
      v12_factor_element(in_q_e_1[0], factor_1[0]);
      v12_factor_element(in_q_e_1[1], factor_1[1]);
      v12_factor_element(in_q_e_1[2], factor_1[2]);
      v12_factor_element(in_q_e_1[3], factor_1[3]);
      query[i * 2u + c * 2u + 1u] = factor_1;
    }
  }
  int reach;
  {
    int in_starts_e = int(in_starts.w[0u]);
    int v7 = max(in_starts_e, 0);
    reach = clamp(v7, -536870912, 536870912) + 0;
  }
  // Blocks in which the mask leaves some row something.
  int last = int(2048u) - 1;
  last = min(last, reach + 0);
  uint end = uint(max(last, -1) + 64) / 64u;
  // The blocks of this part: those of all parts are about as many, however many the mask leaves.
  uint share = (end + 15u) / 16u;
  uint own_begin = part * share;
  uint own_end = min(own_begin + share, end);
  uvec4 in_keys_e_w0[4];
  uvec4 in_values_w0[4];
  int in_starts_e_ahead[4];
  uint first_block = min(own_begin, 32u - 1u);
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint k = first_block * 64u + u * 16u + position;
    uint chunk = lane;
    in_keys_e_w0[u] = in_keys.w[batch * 32768u + k * 16u + chunk];
  }
  [[dont_unroll]] for (uint block = own_begin; block < own_end; ++block) {
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint k = block * 64u + u * 16u + position;
      uint chunk = lane;
      in_values_w0[u] = in_values.w[batch * 32768u + chunk + k * 16u];
      int in_starts_e = int(in_starts.w[0u]);
      in_starts_e_ahead[u] = in_starts_e;
    }
    [[unroll]] for (uint u = 0u; u < 16u; ++u) scores[u] = 0.0;
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint k = block * 64u + u * 16u + position;
      uint chunk = lane;
      vec4 in_keys_e_0 = vec4(f16x2_values_native(in_keys_e_w0[u].x), f16x2_values_native(in_keys_e_w0[u].y));
      vec4 in_keys_e_1 = vec4(f16x2_values_native(in_keys_e_w0[u].z), f16x2_values_native(in_keys_e_w0[u].w));
      uint g = u;
      uint c = 0u;
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        vec4 row_0 = query[i * 2u + c + 0u];
        vec4 row_1 = query[i * 2u + c + 1u];
        scores[i * 4u + g] = fma(row_0.x, in_keys_e_0.x, scores[i * 4u + g]);
        scores[i * 4u + g] = fma(row_0.y, in_keys_e_0.y, scores[i * 4u + g]);
        scores[i * 4u + g] = fma(row_0.z, in_keys_e_0.z, scores[i * 4u + g]);
        scores[i * 4u + g] = fma(row_0.w, in_keys_e_0.w, scores[i * 4u + g]);
        scores[i * 4u + g] = fma(row_1.x, in_keys_e_1.x, scores[i * 4u + g]);
        scores[i * 4u + g] = fma(row_1.y, in_keys_e_1.y, scores[i * 4u + g]);
        scores[i * 4u + g] = fma(row_1.z, in_keys_e_1.z, scores[i * 4u + g]);
        scores[i * 4u + g] = fma(row_1.w, in_keys_e_1.w, scores[i * 4u + g]);
      }
    }
    // The next keys are in flight while scores become weights.
    uint next_block = min(block + 1u, own_end - 1u);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint k = next_block * 64u + u * 16u + position;
      uint chunk = lane;
      in_keys_e_w0[u] = in_keys.w[batch * 32768u + k * 16u + chunk];
    }
    for (uint mask = 8u; mask > 0u; mask >>= 1) {
      [[unroll]] for (uint u = 0u; u < 16u; ++u) scores[u] += subgroupShuffleXor(scores[u], mask);
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
      uint m = tile_m * 4u + i;
      float top = most[i];
      [[unroll]] for (uint g = 0u; g < 4u; ++g) {
        uint chunk = block * 64u + g * 16u + position;
        int v2 = int(0u);
        int in_starts_e = int(in_starts.w[0u]);
        int v7 = max(in_starts_e, 0);
        float score;
        score_element(chunk, v2, v7, scores[i * 4u + g], score);
        scores[i * 4u + g] = score;
        top = f32_max_bits(top, score);
      }
      // A row without a score above -infinity so far has nothing to rescale.
      float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
      precise float fallen = most[i] - base;
      float scale = f32_exp(fallen);
      most[i] = top;
      total[i] *= scale;
      [[unroll]] for (uint c = 0u; c < 2u; ++c) sums[i * 2u + c] *= scale;
      [[unroll]] for (uint g = 0u; g < 4u; ++g) scores[i * 4u + g] -= base;
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
      uint m = tile_m * 4u + i;
      [[unroll]] for (uint g = 0u; g < 4u; ++g) {
        float power = f32_exp(scores[i * 4u + g]);
        total[i] += power;
        uint chunk = block * 64u + g * 16u + position;
        weight_element(power, power);
        scores[i * 4u + g] = power;
      }
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint k = block * 64u + u * 16u + position;
      uint chunk = lane;
      int v0 = int(k);
      int v7 = max(in_starts_e_ahead[u], 0);
      int v32 = v0 - 0;
      bool v34 = v32 <= v7;
      vec4 in_values_0 = vec4(f16x2_values_native(in_values_w0[u].x), f16x2_values_native(in_values_w0[u].y));
      vec4 factor_0;
      v37_factor_element(in_values_0[0], v34, factor_0[0]);
      v37_factor_element(in_values_0[1], v34, factor_0[1]);
      v37_factor_element(in_values_0[2], v34, factor_0[2]);
      v37_factor_element(in_values_0[3], v34, factor_0[3]);
      vec4 in_values_1 = vec4(f16x2_values_native(in_values_w0[u].z), f16x2_values_native(in_values_w0[u].w));
      vec4 factor_1;
      v37_factor_element(in_values_1[0], v34, factor_1[0]);
      v37_factor_element(in_values_1[1], v34, factor_1[1]);
      v37_factor_element(in_values_1[2], v34, factor_1[2]);
      v37_factor_element(in_values_1[3], v34, factor_1[3]);
      uint g = u;
      uint c = 0u;
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        sums[i * 2u + c + 0u] = fma(vec4(scores[i * 4u + g]), factor_0, sums[i * 2u + c + 0u]);
        sums[i * 2u + c + 1u] = fma(vec4(scores[i * 4u + g]), factor_1, sums[i * 2u + c + 1u]);
      }
    }
  }
  // What was added up at neighbouring positions.
  for (uint mask = 16u; mask < 32u; mask <<= 1) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
      float top = f32_max_bits(most[i], subgroupShuffleXor(most[i], mask));
      float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
      precise float fallen = most[i] - base;
      float scale = f32_exp(fallen);
      most[i] = top;
      total[i] *= scale;
      [[unroll]] for (uint c = 0u; c < 2u; ++c) sums[i * 2u + c] *= scale;
      total[i] += subgroupShuffleXor(total[i], mask);
      [[unroll]] for (uint c = 0u; c < 2u; ++c) sums[i * 2u + c] += subgroupShuffleXor(sums[i * 2u + c], mask);
    }
  }
  if (gl_SubgroupInvocationID < 16u) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
      uint own = (gl_SubgroupID * 4u + i) * 33u;
      if (lane == 0u) joined[own] = vec4(most[i], total[i], 0.0, 0.0);
      [[unroll]] for (uint c = 0u; c < 1u; ++c) {
        joined[own + 1u + (c * 16u + lane) * 2u + 0u] = sums[i * 2u + c * 2u + 0u];
        joined[own + 1u + (c * 16u + lane) * 2u + 1u] = sums[i * 2u + c * 2u + 1u];
      }
    }
  }
  barrier();
  for (uint unit = thread; unit < 128u; unit += 256u) {
    uint i = unit / 32u;
    uint chunk = unit % 32u;
    float top = uintBitsToFloat(0xff800000u);
    [[unroll]] for (uint g = 0u; g < 8u; ++g) top = f32_max_bits(top, joined[(g * 4u + i) * 33u].x);
    float whole = 0.0;
    vec4 four = vec4(0.0);
    [[unroll]] for (uint g = 0u; g < 8u; ++g) {
      vec2 known = joined[(g * 4u + i) * 33u].xy;
      float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
      precise float fallen = known.x - base;
      float scale = f32_exp(fallen);
      whole += known.y * scale;
      four += joined[(g * 4u + i) * 33u + 1u + chunk] * scale;
    }
    uint own = (workgroup * 4u + i) * 33u;
    if (chunk == 0u) partials.w[own] = vec4(top, whole, 0.0, 0.0);
    partials.w[own + 1u + chunk] = four;
  }
  // What this workgroup has left is seen by the last one of the tile, which goes on.
  memoryBarrierBuffer();
  barrier();
  if (thread == 0u) {
    memoryBarrierBuffer();
    arrived = atomicAdd(counts.w[tile], 1u);
    memoryBarrierBuffer();
  }
  barrier();
  if (arrived < 15u) return;
  memoryBarrierBuffer();
  if (thread == 0u) counts.w[tile] = 0u;  // for the next run
  for (uint unit = thread; unit < 128u; unit += 256u) {
    uint i = unit / 32u;
    uint chunk = unit % 32u;
    uint m = tile_m * 4u + i;
    float top = uintBitsToFloat(0xff800000u);
    [[unroll]] for (uint g = 0u; g < 16u; ++g) top = f32_max_bits(top, partials.w[((tile * 16u + g) * 4u + i) * 33u].x);
    float whole = 0.0;
    vec4 four = vec4(0.0);
    [[unroll]] for (uint g = 0u; g < 16u; ++g) {
      vec2 known = partials.w[((tile * 16u + g) * 4u + i) * 33u].xy;
      float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;
      precise float fallen = known.x - base;
      float scale = f32_exp(fallen);
      whole += known.y * scale;
      four += partials.w[((tile * 16u + g) * 4u + i) * 33u + 1u + chunk] * scale;
    }
    // An infinite or undefined maximum leaves no number.
    if (f32_magnitude_bits(top) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);
    vec4 out_y_0;
    result_element(top, whole, four.x, out_y_0[0]);
    result_element(top, whole, four.y, out_y_0[1]);
    result_element(top, whole, four.z, out_y_0[2]);
    result_element(top, whole, four.w, out_y_0[3]);
    out_y.w[batch * 128u + m * 32u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
  }
}
