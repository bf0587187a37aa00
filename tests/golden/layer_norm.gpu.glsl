#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "layer norm": reduce_mean, reshape, sub, mul, reduce_mean, add, rsqrt, reshape, ... 11 ops in all
// 256 threads per row, 1 row per workgroup, 2 elements per chunk, 9 chunks per thread, kept in registers
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_x;  // %0 : f16[512, 4098]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_weight;  // %11 : f16[4098]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_bias;  // %13 : f16[4098]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint w[]; } out_y;  // %14 : f16[512, 4098]

// One more term of high + low; `low` has what the additions to `high` have lost (Knuth's two-sum).
void f32_add_term(inout float high, inout float low, float x) {
  precise float sum = high + x;
  precise float added = sum - high;
  precise float lost = low + ((high - (sum - added)) + (x - added));
  high = sum;
  low = lost;
}

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

// The top 12 significant bits of x: its square, and its product with another such, are exact.
float f32_top(float x) {
  return uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u);
}

// a * b less its rounding p = a * b: the part that p lost.
float f32_product_rest(float a, float b, float p) {
  float a_top = f32_top(a);
  float b_top = f32_top(b);
  precise float a_rest = a - a_top;
  precise float b_rest = b - b_top;
  precise float rest = ((a_top * b_top - p) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest;
  return rest;
}

// What count * x leaves of a sum of two parts: exactly nothing where the sum is that.
float f32_left_of_sum(float high, float low, float x, uint count) {
  float thousands = float(count & 0xfffff000u);  // exact, as the rest is
  float ones = float(count & 0xfffu);
  precise float large = x * thousands;
  precise float small = x * ones;
  precise float lost = f32_product_rest(x, thousands, large) + f32_product_rest(x, ones, small);
  precise float left = ((high - large) - small) + (low - lost);
  return left;
}

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_finite(float x) {
  return f32_magnitude_bits(x) < 0x7f800000u;
}

// The mean of a sum of two parts, as two parts again: a quotient that is nearly it, corrected by what it leaves, and
// what the sum has beyond that mean. The correction is a quotient, too, so a rest that was found from it would be what
// dividing has lost. Of a sum that is no number, that.
void f32_correct_mean(float quotient, inout float high, inout float low, uint count) {
  precise float mean = quotient + f32_left_of_sum(high, low, quotient, count) / float(count);
  precise float rest = f32_left_of_sum(high, low, mean, count) / float(count);
  bool is_number = f32_is_finite(mean);
  high = is_number ? mean : quotient;
  low = f32_is_finite(rest) ? rest : 0.0;  // count times the mean may be infinite where the sum is not
}

// A sum of two parts divided by a count; devices divide within 2.5 ulp.
void f32_mean_parts(inout float high, inout float low, uint count) {
  precise float quotient = high / float(count);
  f32_correct_mean(quotient, high, low, count);
}

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

// The magnitude of x with the sign of s, exactly, zeros and denormals included: negations flush those on SwiftShader,
// and on NVIDIA whatever bits of a magnitude are flipped is a negation. Not by masking and joining bits: in kernels
// that divide positions, Mesa 22.3's CPU driver then loses the exponent.
float f32_copy_sign(float x, float s) {
  uint bits = floatBitsToUint(x);
  return uintBitsToFloat(f32_is_negative(s) == f32_is_negative(x) ? bits : bits ^ 0x80000000u);
}

float f32_infinity() {
  return uintBitsToFloat(0x7f800000u);
}

float f32_nan() {
  return uintBitsToFloat(0x7fc00000u);
}

// 2 ulp inside the domain; an infinity of the sign of a zero, 0 for infinity, NaN for negatives.
float f32_rsqrt(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude > 0x7f800000u) return x;
  if (magnitude == 0u) return f32_copy_sign(f32_infinity(), x);
  if (f32_is_negative(x)) return f32_nan();
  return magnitude == 0x7f800000u ? 0.0 : inversesqrt(x);
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared float v1_shared[8];
shared float v1_low_shared[8];
shared float v5_shared[8];

// Two sums of two parts each.
void v1_join(inout float a, inout float a1, float b, float b1) {
  f32_add_term(a, a1, b);
  precise float low = a1 + b1;
  a1 = low;
}

void v5_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(float in_x, inout float v1, inout float v1_low) {
  f32_add_term(v1, v1_low, in_x);
}

// One element of pass 1.
void pass1(float in_x, float v1, float v1_low, inout float v5) {
  precise float v3 = (in_x - v1) - v1_low;
  precise float v5_more = fma(v3, v3, v5);
  v5 = v5_more;
}

// One element of pass 2.
void pass2(float in_x, float v1, float v8, float in_weight, float in_bias, float v1_low, out float out_y_result) {
  precise float v3 = (in_x - v1) - v1_low;
  precise float v10 = v8 * v3;
  precise float out_y = fma(v10, in_weight, in_bias);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint reduction_thread = thread;
  uint row = workgroup;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  uint in_x_w0[9];
  uint in_weight_w0[9];
  uint in_bias_w0[9];
  [[unroll]] for (uint t = 0u; t < 9u; ++t) {
    uint column = min(t * 256u + reduction_thread, 2048u);
    in_x_w0[t] = in_x.w[row * 2049u + column];
    in_weight_w0[t] = in_weight.w[column];
    in_bias_w0[t] = in_bias.w[column];
  }
  float v1 = 0.0;
  float v1_low = 0.0;
  [[unroll]] for (uint t = 0u; t < 9u; ++t) {
    uint column = t * 256u + reduction_thread;
    if (column < 2049u) {
      vec2 in_x_0 = f16x2_values_native(in_x_w0[t]);
      pass0(in_x_0[0], v1, v1_low);
      pass0(in_x_0[1], v1, v1_low);
    }
  }
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v1_join(v1, v1_low, subgroupShuffleXor(v1, mask), subgroupShuffleXor(v1_low, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v1_shared[gl_SubgroupID] = v1;
    v1_low_shared[gl_SubgroupID] = v1_low;
  }
  barrier();
  v1 = v1_shared[gl_SubgroupInvocationID % 8u];
  v1_low = v1_low_shared[gl_SubgroupInvocationID % 8u];
  for (uint mask = 4u; mask > 0u; mask >>= 1) {
    v1_join(v1, v1_low, subgroupShuffleXor(v1, mask), subgroupShuffleXor(v1_low, mask));
  }
  f32_mean_parts(v1, v1_low, 4098u);
  float v5 = 0.0;
  [[unroll]] for (uint t = 0u; t < 9u; ++t) {
    uint column = t * 256u + reduction_thread;
    if (column < 2049u) {
      vec2 in_x_0 = f16x2_values_native(in_x_w0[t]);
      pass1(in_x_0[0], v1, v1_low, v5);
      pass1(in_x_0[1], v1, v1_low, v5);
    }
  }
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v5_join(v5, subgroupShuffleXor(v5, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v5_shared[gl_SubgroupID] = v5;
  }
  barrier();
  v5 = v5_shared[gl_SubgroupInvocationID % 8u];
  for (uint mask = 4u; mask > 0u; mask >>= 1) {
    v5_join(v5, subgroupShuffleXor(v5, mask));
  }
  v5 = v5 / float(4098u);
  precise float v7 = v5 + 1.001358e-05;
  precise float v8 = f32_rsqrt(v7);
  [[unroll]] for (uint t = 0u; t < 9u; ++t) {
    uint column = t * 256u + reduction_thread;
    if (column < 2049u) {
      vec2 in_x_0 = f16x2_values_native(in_x_w0[t]);
      vec2 in_weight_0 = f16x2_values_native(in_weight_w0[t]);
      vec2 in_bias_0 = f16x2_values_native(in_bias_w0[t]);
      vec2 out_y_0;
      pass2(in_x_0[0], v1, v8, in_weight_0[0], in_bias_0[0], v1_low, out_y_0[0]);
      pass2(in_x_0[1], v1, v8, in_weight_0[1], in_bias_0[1], v1_low, out_y_0[1]);
      if (inside) {
        out_y.w[row * 2049u + column] = f16x2_bits_native(out_y_0);
      }
    }
  }
}
