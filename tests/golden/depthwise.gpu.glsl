#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "depthwise convolution, bias, relu": reshape, pad, reshape, unfold, unfold, dot, permute, reshape, ... 10 ops in all
// windows of 7 x 7, 32 results per thread in chunks of 8
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // blocks of results
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_w;  // %0 : f16[64, 1, 7, 7]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_x;  // %2 : f16[8, 64, 56, 56]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_bias;  // %11 : f16[64, 1, 1]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec4 w[]; } out_y;  // %13 : f16[8, 64, 56, 56]

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

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
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
  uint q2 = block / 7u;
  uint r1 = q2 % 14u;
  uint r2 = block % 7u;
  float v8_v_of[32];
  [[unroll]] for (uint i = 0u; i < 32u; ++i) v8_v_of[i] = 0.0;
  float in_w_e_at[49];
  [[unroll]] for (uint t = 0u; t < 49u; ++t) {
    uint in_w_i = t + r * 49u;
    float in_w_e = f16x2_values_native(in_w.w[in_w_i >> 1] >> ((in_w_i & 1u) * 16u))[0];
    in_w_e_at[t] = in_w_e;
  }
  [[unroll]] for (uint line = 0u; line < 10u; ++line) {
    float in_x_row[14];
    uint in_x_at = line * 7u + q2 * 28u + r2 - 22u;
    uvec4 in_x_w0 = in_x.w[min(in_x_at, 200703u)];
    uvec4 in_x_w1 = in_x.w[min(in_x_at + 1u, 200703u)];
    uvec4 in_x_w2 = in_x.w[min(in_x_at + 2u, 200703u)];
    bool in_x_inside = ((line + r1 * 4u - 3u) < 56u);
    vec2 in_x_g2 = f16x2_values_native(in_x_w0.z);
    in_x_row[0u] = mix(0.0, in_x_g2[1], in_x_inside && ((r2 * 8u - 3u) < 56u));
    vec2 in_x_g3 = f16x2_values_native(in_x_w0.w);
    in_x_row[1u] = mix(0.0, in_x_g3[0], in_x_inside && ((r2 * 8u - 2u) < 56u));
    in_x_row[2u] = mix(0.0, in_x_g3[1], in_x_inside && ((r2 * 8u - 1u) < 56u));
    vec2 in_x_g4 = f16x2_values_native(in_x_w1.x);
    in_x_row[3u] = mix(0.0, in_x_g4[0], in_x_inside);
    in_x_row[4u] = mix(0.0, in_x_g4[1], in_x_inside);
    vec2 in_x_g5 = f16x2_values_native(in_x_w1.y);
    in_x_row[5u] = mix(0.0, in_x_g5[0], in_x_inside);
    in_x_row[6u] = mix(0.0, in_x_g5[1], in_x_inside);
    vec2 in_x_g6 = f16x2_values_native(in_x_w1.z);
    in_x_row[7u] = mix(0.0, in_x_g6[0], in_x_inside);
    in_x_row[8u] = mix(0.0, in_x_g6[1], in_x_inside);
    vec2 in_x_g7 = f16x2_values_native(in_x_w1.w);
    in_x_row[9u] = mix(0.0, in_x_g7[0], in_x_inside);
    in_x_row[10u] = mix(0.0, in_x_g7[1], in_x_inside);
    vec2 in_x_g8 = f16x2_values_native(in_x_w2.x);
    in_x_row[11u] = mix(0.0, in_x_g8[0], in_x_inside && ((r2 * 8u + 8u) < 56u));
    in_x_row[12u] = mix(0.0, in_x_g8[1], in_x_inside && ((r2 * 8u + 9u) < 56u));
    vec2 in_x_g9 = f16x2_values_native(in_x_w2.y);
    in_x_row[13u] = mix(0.0, in_x_g9[0], in_x_inside && ((r2 * 8u + 10u) < 56u));
    [[unroll]] for (uint row = 0u; row < 4u; ++row) {
      uint line_tap = line - row;
      if (line_tap < 7u) {
        [[unroll]] for (uint k = 0u; k < 7u; ++k) {
          [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            tap(in_w_e_at[line_tap * 7u + k], in_x_row[j + k], v8_v_of[row * 8u + j]);
          }
        }
      }
    }
  }
  [[unroll]] for (uint row = 0u; row < 4u; ++row) {
    float in_bias_e = f16x2_values_native(in_bias.w[r >> 1] >> ((r & 1u) * 16u))[0];
    vec4 v8_v_0 = vec4(v8_v_of[row * 8u + 0u], v8_v_of[row * 8u + 1u], v8_v_of[row * 8u + 2u], v8_v_of[row * 8u + 3u]);
    vec4 out_y_0;
    element(v8_v_0[0], in_bias_e, out_y_0[0]);
    element(v8_v_0[1], in_bias_e, out_y_0[1]);
    element(v8_v_0[2], in_bias_e, out_y_0[2]);
    element(v8_v_0[3], in_bias_e, out_y_0[3]);
    vec4 v8_v_1 = vec4(v8_v_of[row * 8u + 4u], v8_v_of[row * 8u + 5u], v8_v_of[row * 8u + 6u], v8_v_of[row * 8u + 7u]);
    vec4 out_y_1;
    element(v8_v_1[0], in_bias_e, out_y_1[0]);
    element(v8_v_1[1], in_bias_e, out_y_1[1]);
    element(v8_v_1[2], in_bias_e, out_y_1[2]);
    element(v8_v_1[3], in_bias_e, out_y_1[3]);
    out_y.w[row * 7u + q2 * 28u + r2] = uvec4(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw), f16x2_bits_native(out_y_1.xy), f16x2_bits_native(out_y_1.zw));
  }
}
