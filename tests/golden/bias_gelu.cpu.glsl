#version 450

// segment 0 of graph "bias + GELU": add, mul, erf, mul, fma
// 8 elements per item, 1 item in flight per invocation
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint items;  // in the iteration space
  uint last;   // elements of the last item
  uint size1;
  uint magic1;
  uint shift1;
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[n, 768]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_bias;  // %1 : f16[768]
layout(set = 0, binding = 2) writeonly buffer Buffer2 { uvec4 w[]; } out_y;  // %8 : f16[n, 768]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// The magnitude of x with the sign of s, exactly, zeros included.
float f32_copy_sign(float x, float s) {
  return uintBitsToFloat((floatBitsToUint(x) & 0x7fffffffu) | (floatBitsToUint(s) & 0x80000000u));
}

// x - n log(2) for the whole n that brings it closest to 0. For |x| <= 128; x - n * 0.693... is exact.
float f32_exp_reduce(float x, out int n) {
  precise float whole = floor(x * 1.44269502 + 0.5);
  precise float rest = (x - whole * 0.693359375) + whole * 0.000212194442;
  n = int(whole);
  return rest;
}

// e^r - 1 for |r| <= log(2)/2, by a minimax polynomial good to 2^-31.
float f32_expm1_reduced(float r) {
  precise float p = 0.000199188624;
  p = p * r + 0.00139413716;
  p = p * r + 0.00833326671;
  p = p * r + 0.041666355;
  p = p * r + 0.166666672;
  p = p * r + 0.5;
  p = p * r * r + r;
  return p;
}

// 2^e for -126 <= e <= 127, exactly.
float f32_power_of_two(int e) {
  return uintBitsToFloat(uint(e + 127) << 23);
}

// x * 2^e for |e| <= 252, in two steps so that neither factor overflows.
float f32_scale(float x, int e) {
  int half_way = e / 2;
  precise float result = x * f32_power_of_two(half_way) * f32_power_of_two(e - half_way);
  return result;
}

// e^x * 2^k for |x| <= 104 and |k| <= 1, 1 ulp. Not the built-in, whose error grows with x.
float f32_exp_times(float x, int k) {
  int n;
  float r = f32_exp_reduce(x, n);
  precise float fraction = 1.0 + f32_expm1_reduced(r);
  return f32_scale(fraction, n + k);
}

// e^-Q with a minimax Q of a - 2.5: the complement of erf for 1 <= a <= 4, good to 2^-33 of 1.
float f32_erf_complement(float a) {
  precise float t = a - 2.5;
  precise float q = 2.16865374e-05;
  q = q * t - 6.18182094e-05;
  q = q * t + 0.000430911692;
  q = q * t - 0.00216652616;
  q = q * t + 0.0108534982;
  q = q * t + 0.943891823;
  q = q * t + 5.35268068;
  q = q * t + 7.80681515;
  return f32_exp_times(-q, 0);
}

// 2 ulp.
float f32_erf(float x) {
  if (f32_is_nan(x)) return x;
  float a = abs(x);
  if (a >= 4.0) return f32_copy_sign(1.0, x);
  if (a >= 1.0) {
    precise float far = 1.0 - f32_erf_complement(a);
    return f32_copy_sign(far, x);
  }
  precise float square = x * x;
  precise float p = -9.72215003e-06;
  p = p * square + 0.000112862079;
  p = p * square - 0.000848704367;
  p = p * square + 0.0052212514;
  p = p * square - 0.0268655177;
  p = p * square + 0.112837844;
  p = p * square - 0.376126379;
  p = p * square + 0.128379166;  // 2/sqrt(pi) - 1
  p = p * x + x;
  return p;
}

// n / d for n < 2^31, by multiplication: magic = ceil(2^(31 + s) / d) and shift = s - 1 with
// s = ceil(log2 d); d = 1 has magic 0.
uint quotient(uint n, uint magic, uint shift) {
  uint high, low;
  umulExtended(n, magic, high, low);
  return magic == 0u ? n : high >> shift;
}

// The value of f16 bits, exactly; NaN becomes the canonical quiet one. High bits must be zero.
float f16_value(uint bits) {
  uint sign = (bits & 0x8000u) << 16;
  uint magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) return uintBitsToFloat(0x7fc00000u);
  if (magnitude == 0x7c00u) return uintBitsToFloat(sign | 0x7f800000u);
  if (magnitude >= 0x400u) return uintBitsToFloat(sign | (magnitude << 13) + 0x38000000u);
  if (magnitude == 0u) return uintBitsToFloat(sign);
  int top = findMSB(magnitude);  // subnormal: magnitude * 2^-24, a normal f32
  return uintBitsToFloat(sign | uint(top + 103) << 23 | (magnitude << (23 - top) & 0x7fffffu));
}

vec2 f16x2_values(uint word) {
  return vec2(f16_value(word & 0xffffu), f16_value(word >> 16));
}

// The bits of the nearest f16, halves to even; NaN becomes the canonical 0x7e00.
uint f16_bits(float x) {
  uint bits = floatBitsToUint(x);
  uint sign = bits >> 16 & 0x8000u;
  uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // from 65520 on
  if (magnitude >= 0x38800000u) {                       // normal: from 2^-14 on
    return sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  if (magnitude < 0x33000000u) return sign;  // below half of the smallest, 2^-25
  int shift = 126 - int(magnitude >> 23);    // in units of 2^-24: 14 to 24
  uint fraction = (magnitude & 0x7fffffu) | 0x800000u;
  uint steps = fraction >> shift;
  uint rest = fraction & ((1u << shift) - 1u);
  uint half_way = 1u << (shift - 1);
  return sign | (steps + uint(rest > half_way || (rest == half_way && (steps & 1u) != 0u)));
}

uint f16x2_bits(vec2 v) {
  return f16_bits(v.x) | (f16_bits(v.y) << 16);
}

// One element.
void element(float in_x, float in_bias, out float out_y_result) {
  precise float v2 = in_x + in_bias;
  precise float v4 = v2 * 0.70703125;
  precise float v5 = f32_erf(v4);
  precise float v7 = v2 * 0.5;
  precise float out_y = fma(v7, v5, v7);
  out_y_result = out_y;
}

// 4 consecutive elements.
void group(vec4 in_x, vec4 in_bias, out vec4 out_y) {
  element(in_x[0], in_bias[0], out_y[0]);
  element(in_x[1], in_bias[1], out_y[1]);
  element(in_x[2], in_bias[2], out_y[2]);
  element(in_x[3], in_bias[3], out_y[3]);
}

void main() {
  uint workgroup = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint item = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (item >= p.items) return;
  uint q1 = quotient(item, p.magic1, p.shift1);
  uint c1 = item - q1 * p.size1;
  uvec4 in_x_w0 = in_x.w[item];
  uvec4 in_bias_w0 = in_bias.w[c1];
  vec4 in_x_0 = vec4(f16x2_values(in_x_w0.x), f16x2_values(in_x_w0.y));
  vec4 in_bias_0 = vec4(f16x2_values(in_bias_w0.x), f16x2_values(in_bias_w0.y));
  vec4 out_y_0;
  group(in_x_0, in_bias_0, out_y_0);
  vec4 in_x_1 = vec4(f16x2_values(in_x_w0.z), f16x2_values(in_x_w0.w));
  vec4 in_bias_1 = vec4(f16x2_values(in_bias_w0.z), f16x2_values(in_bias_w0.w));
  vec4 out_y_1;
  group(in_x_1, in_bias_1, out_y_1);
  out_y.w[item] = uvec4(f16x2_bits(out_y_0.xy), f16x2_bits(out_y_0.zw), f16x2_bits(out_y_1.xy), f16x2_bits(out_y_1.zw));
}
