#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "softmax of the first axis": reduce_max, sub, exp, reduce_sum, div
// 64 threads per row, 128 rows per workgroup, 8 elements per chunk, 5 chunks per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // groups of rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[300, 1024]
layout(set = 0, binding = 1) writeonly buffer Buffer1 { uvec4 w[]; } out_y;  // %5 : f16[300, 1024]

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

float f32_max_bits(float x, float y) {
  float larger = x < y ? y : x;
  larger = f32_is_nan(y) ? y : larger;
  return f32_is_nan(x) ? x : larger;
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

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared float v1_shared[8192];
shared float v4_shared[8192];

// One more element: a single exponential rescales either the sum or the element.
void v4_join_one(inout float most, inout float sum, float x) {
  precise float apart = -abs(x - most);
  precise float scale = x == most ? 1.0 : f32_exp(apart);
  sum = x <= most ? sum + scale : fma(sum, scale, 1.0);
  most = f32_max_bits(most, x);
}

// A maximum and the sum of exponentials below it, with those below another maximum.
void v4_join(inout float a, inout float a1, float b, float b1) {
  precise float most = f32_max_bits(a, b);
  precise float own_scale = a == most ? 1.0 : f32_exp((a - most));
  precise float other_scale = b == most ? 1.0 : f32_exp((b - most));
  a1 = fma(a1, own_scale, b1 * other_scale);
  a = most;
}

// One element of pass 0.
void pass0(float in_x, inout float v1, inout float v4) {
  v4_join_one(v1, v4, in_x);
}

// One element of pass 1.
void pass1(float in_x, float v1, float v4, out float out_y_result) {
  precise float v2 = in_x - v1;
  precise float v3 = f32_exp(v2);
  precise float out_y = f32_div(v3, v4);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_LocalInvocationID.x;
  uint reduction_thread = thread / 16u;
  uint row = workgroup * 16u + thread % 16u;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  float v1[8] = float[8](uintBitsToFloat(0xff800000u), uintBitsToFloat(0xff800000u), uintBitsToFloat(0xff800000u), uintBitsToFloat(0xff800000u), uintBitsToFloat(0xff800000u), uintBitsToFloat(0xff800000u), uintBitsToFloat(0xff800000u), uintBitsToFloat(0xff800000u));
  float v4[8] = float[8](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
  for (uint first = reduction_thread; first < 300u; first += 128u) {
    uvec4 in_x_w0[2];
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = min(first + u * 64u, 300u - 1u);
      in_x_w0[u] = in_x.w[row + column * 128u];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = first + u * 64u;
      if (column < 300u) {
        vec4 in_x_0 = vec4(f16x2_values_native(in_x_w0[u].x), f16x2_values_native(in_x_w0[u].y));
        pass0(in_x_0[0], v1[0], v4[0]);
        pass0(in_x_0[1], v1[1], v4[1]);
        pass0(in_x_0[2], v1[2], v4[2]);
        pass0(in_x_0[3], v1[3], v4[3]);
        vec4 in_x_1 = vec4(f16x2_values_native(in_x_w0[u].z), f16x2_values_native(in_x_w0[u].w));
        pass0(in_x_1[0], v1[4], v4[4]);
        pass0(in_x_1[1], v1[5], v4[5]);
        pass0(in_x_1[2], v1[6], v4[6]);
        pass0(in_x_1[3], v1[7], v4[7]);
      }
    }
  }
  v1_shared[thread] = v1[0];
  v4_shared[thread] = v4[0];
  v1_shared[thread + 1024u] = v1[1];
  v4_shared[thread + 1024u] = v4[1];
  v1_shared[thread + 2048u] = v1[2];
  v4_shared[thread + 2048u] = v4[2];
  v1_shared[thread + 3072u] = v1[3];
  v4_shared[thread + 3072u] = v4[3];
  v1_shared[thread + 4096u] = v1[4];
  v4_shared[thread + 4096u] = v4[4];
  v1_shared[thread + 5120u] = v1[5];
  v4_shared[thread + 5120u] = v4[5];
  v1_shared[thread + 6144u] = v1[6];
  v4_shared[thread + 6144u] = v4[6];
  v1_shared[thread + 7168u] = v1[7];
  v4_shared[thread + 7168u] = v4[7];
  barrier();
  for (uint reach = 32u; reach > 0u; reach >>= 1) {
    if (reduction_thread < reach) {
      v4_join(v1[0], v4[0], v1_shared[thread + reach * 16u], v4_shared[thread + reach * 16u]);
      v1_shared[thread] = v1[0];
      v4_shared[thread] = v4[0];
      v4_join(v1[1], v4[1], v1_shared[thread + reach * 16u + 1024u], v4_shared[thread + reach * 16u + 1024u]);
      v1_shared[thread + 1024u] = v1[1];
      v4_shared[thread + 1024u] = v4[1];
      v4_join(v1[2], v4[2], v1_shared[thread + reach * 16u + 2048u], v4_shared[thread + reach * 16u + 2048u]);
      v1_shared[thread + 2048u] = v1[2];
      v4_shared[thread + 2048u] = v4[2];
      v4_join(v1[3], v4[3], v1_shared[thread + reach * 16u + 3072u], v4_shared[thread + reach * 16u + 3072u]);
      v1_shared[thread + 3072u] = v1[3];
      v4_shared[thread + 3072u] = v4[3];
      v4_join(v1[4], v4[4], v1_shared[thread + reach * 16u + 4096u], v4_shared[thread + reach * 16u + 4096u]);
      v1_shared[thread + 4096u] = v1[4];
      v4_shared[thread + 4096u] = v4[4];
      v4_join(v1[5], v4[5], v1_shared[thread + reach * 16u + 5120u], v4_shared[thread + reach * 16u + 5120u]);
      v1_shared[thread + 5120u] = v1[5];
      v4_shared[thread + 5120u] = v4[5];
      v4_join(v1[6], v4[6], v1_shared[thread + reach * 16u + 6144u], v4_shared[thread + reach * 16u + 6144u]);
      v1_shared[thread + 6144u] = v1[6];
      v4_shared[thread + 6144u] = v4[6];
      v4_join(v1[7], v4[7], v1_shared[thread + reach * 16u + 7168u], v4_shared[thread + reach * 16u + 7168u]);
      v1_shared[thread + 7168u] = v1[7];
      v4_shared[thread + 7168u] = v4[7];
    }
    barrier();
  }
  v1[0] = v1_shared[thread % 16u];
  v4[0] = v4_shared[thread % 16u];
  v1[1] = v1_shared[thread % 16u + 1024u];
  v4[1] = v4_shared[thread % 16u + 1024u];
  v1[2] = v1_shared[thread % 16u + 2048u];
  v4[2] = v4_shared[thread % 16u + 2048u];
  v1[3] = v1_shared[thread % 16u + 3072u];
  v4[3] = v4_shared[thread % 16u + 3072u];
  v1[4] = v1_shared[thread % 16u + 4096u];
  v4[4] = v4_shared[thread % 16u + 4096u];
  v1[5] = v1_shared[thread % 16u + 5120u];
  v4[5] = v4_shared[thread % 16u + 5120u];
  v1[6] = v1_shared[thread % 16u + 6144u];
  v4[6] = v4_shared[thread % 16u + 6144u];
  v1[7] = v1_shared[thread % 16u + 7168u];
  v4[7] = v4_shared[thread % 16u + 7168u];
  if (f32_magnitude_bits(v1[0]) >= 0x7f800000u) v4[0] = uintBitsToFloat(0x7fc00000u);
  if (f32_magnitude_bits(v1[1]) >= 0x7f800000u) v4[1] = uintBitsToFloat(0x7fc00000u);
  if (f32_magnitude_bits(v1[2]) >= 0x7f800000u) v4[2] = uintBitsToFloat(0x7fc00000u);
  if (f32_magnitude_bits(v1[3]) >= 0x7f800000u) v4[3] = uintBitsToFloat(0x7fc00000u);
  if (f32_magnitude_bits(v1[4]) >= 0x7f800000u) v4[4] = uintBitsToFloat(0x7fc00000u);
  if (f32_magnitude_bits(v1[5]) >= 0x7f800000u) v4[5] = uintBitsToFloat(0x7fc00000u);
  if (f32_magnitude_bits(v1[6]) >= 0x7f800000u) v4[6] = uintBitsToFloat(0x7fc00000u);
  if (f32_magnitude_bits(v1[7]) >= 0x7f800000u) v4[7] = uintBitsToFloat(0x7fc00000u);
  for (uint first = reduction_thread; first < 300u; first += 128u) {
    uvec4 in_x_w0[2];
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = min(first + u * 64u, 300u - 1u);
      in_x_w0[u] = in_x.w[row + column * 128u];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = first + u * 64u;
      if (column < 300u) {
        vec4 in_x_0 = vec4(f16x2_values_native(in_x_w0[u].x), f16x2_values_native(in_x_w0[u].y));
        vec4 out_y_0;
        pass1(in_x_0[0], v1[0], v4[0], out_y_0[0]);
        pass1(in_x_0[1], v1[1], v4[1], out_y_0[1]);
        pass1(in_x_0[2], v1[2], v4[2], out_y_0[2]);
        pass1(in_x_0[3], v1[3], v4[3], out_y_0[3]);
        vec4 in_x_1 = vec4(f16x2_values_native(in_x_w0[u].z), f16x2_values_native(in_x_w0[u].w));
        vec4 out_y_1;
        pass1(in_x_1[0], v1[4], v4[4], out_y_1[0]);
        pass1(in_x_1[1], v1[5], v4[5], out_y_1[1]);
        pass1(in_x_1[2], v1[6], v4[6], out_y_1[2]);
        pass1(in_x_1[3], v1[7], v4[7], out_y_1[3]);
        if (inside) {
          out_y.w[row + column * 128u] = uvec4(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw), f16x2_bits_native(out_y_1.xy), f16x2_bits_native(out_y_1.zw));
        }
      }
    }
  }
}
