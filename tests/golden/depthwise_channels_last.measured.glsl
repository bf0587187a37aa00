#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "convolution of single channels, which are last": reshape, permute, copy, pad, reshape, unfold, unfold, dot, ... 17 ops in all
// windows of 7 x 7, 28 results per thread in chunks of 2
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // blocks of results
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_w;  // %0 : f16[64, 1, 7, 7]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_x;  // %2 : f16[8, 56, 56, 64]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_bias;  // %15 : f16[64, 1, 1]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint w[]; } out_y0;  // %24 : f16[8, 56, 56, 64]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// f32_min and f32_max where no execution mode keeps NaN: a driver may then make a minimum of the comparison, which
// gives the operand that is a number, but not of these of bits. An H200 does.
float f32_min_bits(float x, float y) {
  float lesser = y < x ? y : x;
  lesser = f32_is_nan(y) ? y : lesser;
  return f32_is_nan(x) ? x : lesser;
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
void tap(float in_w_e, float v6, inout float v10_v) {
  precise float v10_v_more = fma(in_w_e, v6, v10_v);
  v10_v = v10_v_more;
}

// One element.
void element(float v10_v, float in_bias, out float out_y0_result) {
  precise float v16 = fma(v10_v, 0.0625, in_bias);
  precise float v18 = v16 + 3.0;
  precise float v20 = f32_min_bits(f32_max_bits(v18, 0.0), 6.0);
  precise float v22 = v20 * 0.16662598;
  precise float v23 = v22 * v16;
  out_y0_result = v23;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint block = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (block >= p.chunks) return;
  uint q = block / 7168u;
  uint q1 = block / 128u;
  uint r = q1 % 56u;
  uint q2 = block / 32u;
  uint r1 = q2 % 4u;
  uint r2 = block % 32u;
  float v10_v_of[28];
  [[unroll]] for (uint i = 0u; i < 28u; ++i) v10_v_of[i] = 0.0;
  for (uint line_tap = 0u; line_tap < 7u; ++line_tap) {
    float in_x_row[40];
    [[unroll]] for (uint i = 0u; i < 20u; ++i) {
      bool in_x_inside = ((line_tap + r - 3u) < 56u && (i + r1 * 14u - 3u) < 56u);
      uint in_x_at = line_tap * 1792u + i * 32u + q2 * 448u + r2 - 5472u;
      uint in_x_w0 = in_x.w[min(in_x_at, 802815u)];
      vec2 in_x_g0 = f16x2_values_native(mix(0u, in_x_w0, in_x_inside));
      in_x_row[i * 2u + 0u] = in_x_g0[0];
      in_x_row[i * 2u + 0u + 1u] = in_x_g0[1];
    }
    [[unroll]] for (uint k = 0u; k < 7u; ++k) {
      float in_w_e_at[2];
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        uint in_w_i = line_tap * 7u + k + j * 49u + r2 * 98u;
        float in_w_e = f16x2_values_native(in_w.w[in_w_i >> 1] >> ((in_w_i & 1u) * 16u))[0];
        in_w_e_at[j] = in_w_e;
      }
      [[unroll]] for (uint row = 0u; row < 14u; ++row) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
          tap(in_w_e_at[j], in_x_row[(row + k) * 2u + j], v10_v_of[row * 2u + j]);
        }
      }
    }
  }
  [[unroll]] for (uint row = 0u; row < 14u; ++row) {
    uint in_bias_w0 = in_bias.w[r2];
    vec2 v10_v_0 = vec2(v10_v_of[row * 2u + 0u], v10_v_of[row * 2u + 1u]);
    vec2 in_bias_0 = f16x2_values_native(in_bias_w0);
    vec2 out_y0_0;
    element(v10_v_0[0], in_bias_0[0], out_y0_0[0]);
    element(v10_v_0[1], in_bias_0[1], out_y0_0[1]);
    out_y0.w[row * 32u + q2 * 448u + r2] = f16x2_bits_native(out_y0_0);
  }
}
