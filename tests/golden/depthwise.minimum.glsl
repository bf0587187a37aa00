#version 450
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "depthwise convolution, bias, relu": reshape, pad, reshape, unfold, unfold, dot, permute, reshape, ... 10 ops in all
// windows of 7 x 7, 32 results per thread in chunks of 4
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // blocks of results
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_w;  // %0 : f16[64, 1, 7, 7]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_x;  // %2 : f16[8, 64, 56, 56]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_bias;  // %11 : f16[64, 1, 1]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %13 : f16[8, 64, 56, 56]

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

// One tap of one result.
void tap(float in_w_e, float v4, inout float v8_v) {
  precise float v8_v_more = fma(in_w_e, v4, v8_v);
  v8_v = v8_v_more;
}

// One element.
void element(float v8_v, float in_bias_e, out float out_y_result) {
  precise float v12 = v8_v + in_bias_e;
  precise float out_y = f32_max_bits(v12, 0.0);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint block = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (block >= p.chunks) return;
  uint q = block / 6272u;
  uint q1 = block / 98u;
  uint r = q1 % 64u;
  uint q2 = block / 14u;
  uint r1 = q2 % 7u;
  uint r2 = block % 14u;
  float v8_v_of[32];
  [[unroll]] for (uint i = 0u; i < 32u; ++i) v8_v_of[i] = 0.0;
  float in_w_e_at[49];
  [[unroll]] for (uint t = 0u; t < 49u; ++t) {
    uint in_w_i = t + r * 49u;
    float in_w_e = f16x2_values(in_w.w[in_w_i >> 1] >> ((in_w_i & 1u) * 16u))[0];
    in_w_e_at[t] = in_w_e;
  }
  [[unroll]] for (uint line = 0u; line < 14u; ++line) {
    float in_x_row[10];
    uint in_x_at = line * 14u + q2 * 112u + r2 - 43u;
    uvec2 in_x_w0 = in_x.w[min(in_x_at, 401407u)];
    uvec2 in_x_w1 = in_x.w[min(in_x_at + 1u, 401407u)];
    uvec2 in_x_w2 = in_x.w[min(in_x_at + 2u, 401407u)];
    bool in_x_inside = ((line + r1 * 8u - 3u) < 56u);
    vec2 in_x_g0 = f16x2_values(in_x_w0.x);
    in_x_row[0u] = mix(0.0, in_x_g0[1], in_x_inside && ((r2 * 4u - 3u) < 56u));
    vec2 in_x_g1 = f16x2_values(in_x_w0.y);
    in_x_row[1u] = mix(0.0, in_x_g1[0], in_x_inside && ((r2 * 4u - 2u) < 56u));
    in_x_row[2u] = mix(0.0, in_x_g1[1], in_x_inside && ((r2 * 4u - 1u) < 56u));
    vec2 in_x_g2 = f16x2_values(in_x_w1.x);
    in_x_row[3u] = mix(0.0, in_x_g2[0], in_x_inside);
    in_x_row[4u] = mix(0.0, in_x_g2[1], in_x_inside);
    vec2 in_x_g3 = f16x2_values(in_x_w1.y);
    in_x_row[5u] = mix(0.0, in_x_g3[0], in_x_inside);
    in_x_row[6u] = mix(0.0, in_x_g3[1], in_x_inside);
    vec2 in_x_g4 = f16x2_values(in_x_w2.x);
    in_x_row[7u] = mix(0.0, in_x_g4[0], in_x_inside && ((r2 * 4u + 4u) < 56u));
    in_x_row[8u] = mix(0.0, in_x_g4[1], in_x_inside && ((r2 * 4u + 5u) < 56u));
    vec2 in_x_g5 = f16x2_values(in_x_w2.y);
    in_x_row[9u] = mix(0.0, in_x_g5[0], in_x_inside && ((r2 * 4u + 6u) < 56u));
    [[unroll]] for (uint row = 0u; row < 8u; ++row) {
      uint line_tap = line - row;
      if (line_tap < 7u) {
        [[unroll]] for (uint k = 0u; k < 7u; ++k) {
          [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            tap(in_w_e_at[line_tap * 7u + k], in_x_row[j + k], v8_v_of[row * 4u + j]);
          }
        }
      }
    }
  }
  [[unroll]] for (uint row = 0u; row < 8u; ++row) {
    float in_bias_e = f16x2_values(in_bias.w[r >> 1] >> ((r & 1u) * 16u))[0];
    vec4 v8_v_0 = vec4(v8_v_of[row * 4u + 0u], v8_v_of[row * 4u + 1u], v8_v_of[row * 4u + 2u], v8_v_of[row * 4u + 3u]);
    vec4 out_y_0;
    element(v8_v_0[0], in_bias_e, out_y_0[0]);
    element(v8_v_0[1], in_bias_e, out_y_0[1]);
    element(v8_v_0[2], in_bias_e, out_y_0[2]);
    element(v8_v_0[3], in_bias_e, out_y_0[3]);
    out_y.w[row * 14u + q2 * 112u + r2] = uvec2(f16x2_bits(out_y_0.xy), f16x2_bits(out_y_0.zw));
  }
}
