#version 450
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a vector times float8 weights, of which each row has a scale": cast, decode_float8_e4m3fn, bitcast, cast, broadcast, mul, permute, dot
// 64 threads per row, 2 rows per workgroup, 16 elements per chunk, 4 chunks per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[1, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weights;  // %1 : u8[1024, 4096]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_scale;  // %6 : f16[1024, 1]
layout(set = 0, binding = 3) buffer Buffer3 { uint w[]; } out_y;  // %10 : f16[1, 1024]

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

// Of a code without infinities and NaN. Below the smallest normal number of the format a code counts units of its last
// place: as the last bits of a float whose own last place is as much, less that float.
uint float_bits_of_code(uint code, int bits, int fraction_bits, int bias) {
  uint sign = bitfieldExtract(code, bits - 1, 1) << 31;
  uint magnitude = bitfieldExtract(code, 0, bits - 1);
  uint normal = (magnitude << (23 - fraction_bits)) + (uint(127 - bias) << 23);
  uint least = uint(151 - bias - fraction_bits) << 23;
  precise float few = uintBitsToFloat(least | magnitude) - uintBitsToFloat(least);
  uint small = floatBitsToUint(few);
  uint value = magnitude >> fraction_bits == 0u ? small : normal;
  return sign | value;
}

uint float8_e4m3fn_bits(uint code) {
  uint bits = float_bits_of_code(code, 8, 3, 7);
  return (code & 0x7fu) == 0x7fu ? 0x7fc00000u : bits;
}

uvec4 float8_e4m3fn_x4_bits(uint word) {
  return uvec4(float8_e4m3fn_bits(word), float8_e4m3fn_bits(word >> 8), float8_e4m3fn_bits(word >> 16),
               float8_e4m3fn_bits(word >> 24));
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

shared float out_y_v_shared[128];
shared float out_y_v1_shared[128];
shared float out_y_v2_shared[128];
shared float out_y_v3_shared[128];

void out_y_v_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

void out_y_v1_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

void out_y_v2_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

void out_y_v3_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(float in_x, uint in_weights, float in_scale_e, uint in_weights_e, float in_scale_e1, uint in_weights_e1, float in_scale_e2, uint in_weights_e2, float in_scale_e3, inout float out_y_v, inout float out_y_v1, inout float out_y_v2, inout float out_y_v3) {
  uint v2 = in_weights;
  uint v3 = v2;
  precise float v4 = uintBitsToFloat(v3);
  precise float v5 = v4;
  precise float v8 = v5 * in_scale_e;
  uint v2_v = in_weights_e;
  uint v3_v = v2_v;
  precise float v4_v = uintBitsToFloat(v3_v);
  precise float v5_v = v4_v;
  precise float v8_v = v5_v * in_scale_e1;
  uint v2_v1 = in_weights_e1;
  uint v3_v1 = v2_v1;
  precise float v4_v1 = uintBitsToFloat(v3_v1);
  precise float v5_v1 = v4_v1;
  precise float v8_v1 = v5_v1 * in_scale_e2;
  uint v2_v2 = in_weights_e2;
  uint v3_v2 = v2_v2;
  precise float v4_v2 = uintBitsToFloat(v3_v2);
  precise float v5_v2 = v4_v2;
  precise float v8_v2 = v5_v2 * in_scale_e3;
  precise float out_y_v_more = fma(in_x, v8, out_y_v);
  out_y_v = out_y_v_more;
  precise float out_y_v1_more = fma(in_x, v8_v, out_y_v1);
  out_y_v1 = out_y_v1_more;
  precise float out_y_v2_more = fma(in_x, v8_v1, out_y_v2);
  out_y_v2 = out_y_v2_more;
  precise float out_y_v3_more = fma(in_x, v8_v2, out_y_v3);
  out_y_v3 = out_y_v3_more;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_LocalInvocationID.x;
  uint reduction_thread = thread % 64u;
  uint row = workgroup * 2u + thread / 64u;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  float in_scale_e = f16x2_values(in_scale.w[row >> 1] >> ((row & 1u) * 16u))[0];
  uint in_scale_i = row + 256u;
  float in_scale_e1 = f16x2_values(in_scale.w[in_scale_i >> 1] >> ((in_scale_i & 1u) * 16u))[0];
  uint in_scale_i1 = row + 512u;
  float in_scale_e2 = f16x2_values(in_scale.w[in_scale_i1 >> 1] >> ((in_scale_i1 & 1u) * 16u))[0];
  uint in_scale_i2 = row + 768u;
  float in_scale_e3 = f16x2_values(in_scale.w[in_scale_i2 >> 1] >> ((in_scale_i2 & 1u) * 16u))[0];
  float out_y_v = 0.0;
  float out_y_v1 = 0.0;
  float out_y_v2 = 0.0;
  float out_y_v3 = 0.0;
  for (uint first = reduction_thread; first < 256u; first += 128u) {
    uvec4 in_x_w0[2];
    uvec4 in_x_w1[2];
    uvec4 in_weights_w0[2];
    uvec4 in_weights_e_w0[2];
    uvec4 in_weights_e1_w0[2];
    uvec4 in_weights_e2_w0[2];
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = min(first + u * 64u, 256u - 1u);
      in_x_w0[u] = in_x.w[column * 2u];
      in_x_w1[u] = in_x.w[column * 2u + 1u];
      in_weights_w0[u] = in_weights.w[row * 256u + column];
      in_weights_e_w0[u] = in_weights.w[row * 256u + column + 65536u];
      in_weights_e1_w0[u] = in_weights.w[row * 256u + column + 131072u];
      in_weights_e2_w0[u] = in_weights.w[row * 256u + column + 196608u];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = first + u * 64u;
      if (column < 256u) {
        vec4 in_x_0 = vec4(f16x2_values(in_x_w0[u].x), f16x2_values(in_x_w0[u].y));
        uvec4 in_weights_0 = float8_e4m3fn_x4_bits(in_weights_w0[u].x);
        uvec4 in_weights_e_0 = float8_e4m3fn_x4_bits(in_weights_e_w0[u].x);
        uvec4 in_weights_e1_0 = float8_e4m3fn_x4_bits(in_weights_e1_w0[u].x);
        uvec4 in_weights_e2_0 = float8_e4m3fn_x4_bits(in_weights_e2_w0[u].x);
        pass0(in_x_0[0], in_weights_0[0], in_scale_e, in_weights_e_0[0], in_scale_e1, in_weights_e1_0[0], in_scale_e2, in_weights_e2_0[0], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_0[1], in_weights_0[1], in_scale_e, in_weights_e_0[1], in_scale_e1, in_weights_e1_0[1], in_scale_e2, in_weights_e2_0[1], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_0[2], in_weights_0[2], in_scale_e, in_weights_e_0[2], in_scale_e1, in_weights_e1_0[2], in_scale_e2, in_weights_e2_0[2], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_0[3], in_weights_0[3], in_scale_e, in_weights_e_0[3], in_scale_e1, in_weights_e1_0[3], in_scale_e2, in_weights_e2_0[3], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        vec4 in_x_1 = vec4(f16x2_values(in_x_w0[u].z), f16x2_values(in_x_w0[u].w));
        uvec4 in_weights_1 = float8_e4m3fn_x4_bits(in_weights_w0[u].y);
        uvec4 in_weights_e_1 = float8_e4m3fn_x4_bits(in_weights_e_w0[u].y);
        uvec4 in_weights_e1_1 = float8_e4m3fn_x4_bits(in_weights_e1_w0[u].y);
        uvec4 in_weights_e2_1 = float8_e4m3fn_x4_bits(in_weights_e2_w0[u].y);
        pass0(in_x_1[0], in_weights_1[0], in_scale_e, in_weights_e_1[0], in_scale_e1, in_weights_e1_1[0], in_scale_e2, in_weights_e2_1[0], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_1[1], in_weights_1[1], in_scale_e, in_weights_e_1[1], in_scale_e1, in_weights_e1_1[1], in_scale_e2, in_weights_e2_1[1], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_1[2], in_weights_1[2], in_scale_e, in_weights_e_1[2], in_scale_e1, in_weights_e1_1[2], in_scale_e2, in_weights_e2_1[2], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_1[3], in_weights_1[3], in_scale_e, in_weights_e_1[3], in_scale_e1, in_weights_e1_1[3], in_scale_e2, in_weights_e2_1[3], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        vec4 in_x_2 = vec4(f16x2_values(in_x_w1[u].x), f16x2_values(in_x_w1[u].y));
        uvec4 in_weights_2 = float8_e4m3fn_x4_bits(in_weights_w0[u].z);
        uvec4 in_weights_e_2 = float8_e4m3fn_x4_bits(in_weights_e_w0[u].z);
        uvec4 in_weights_e1_2 = float8_e4m3fn_x4_bits(in_weights_e1_w0[u].z);
        uvec4 in_weights_e2_2 = float8_e4m3fn_x4_bits(in_weights_e2_w0[u].z);
        pass0(in_x_2[0], in_weights_2[0], in_scale_e, in_weights_e_2[0], in_scale_e1, in_weights_e1_2[0], in_scale_e2, in_weights_e2_2[0], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_2[1], in_weights_2[1], in_scale_e, in_weights_e_2[1], in_scale_e1, in_weights_e1_2[1], in_scale_e2, in_weights_e2_2[1], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_2[2], in_weights_2[2], in_scale_e, in_weights_e_2[2], in_scale_e1, in_weights_e1_2[2], in_scale_e2, in_weights_e2_2[2], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_2[3], in_weights_2[3], in_scale_e, in_weights_e_2[3], in_scale_e1, in_weights_e1_2[3], in_scale_e2, in_weights_e2_2[3], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        vec4 in_x_3 = vec4(f16x2_values(in_x_w1[u].z), f16x2_values(in_x_w1[u].w));
        uvec4 in_weights_3 = float8_e4m3fn_x4_bits(in_weights_w0[u].w);
        uvec4 in_weights_e_3 = float8_e4m3fn_x4_bits(in_weights_e_w0[u].w);
        uvec4 in_weights_e1_3 = float8_e4m3fn_x4_bits(in_weights_e1_w0[u].w);
        uvec4 in_weights_e2_3 = float8_e4m3fn_x4_bits(in_weights_e2_w0[u].w);
        pass0(in_x_3[0], in_weights_3[0], in_scale_e, in_weights_e_3[0], in_scale_e1, in_weights_e1_3[0], in_scale_e2, in_weights_e2_3[0], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_3[1], in_weights_3[1], in_scale_e, in_weights_e_3[1], in_scale_e1, in_weights_e1_3[1], in_scale_e2, in_weights_e2_3[1], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_3[2], in_weights_3[2], in_scale_e, in_weights_e_3[2], in_scale_e1, in_weights_e1_3[2], in_scale_e2, in_weights_e2_3[2], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
        pass0(in_x_3[3], in_weights_3[3], in_scale_e, in_weights_e_3[3], in_scale_e1, in_weights_e1_3[3], in_scale_e2, in_weights_e2_3[3], in_scale_e3, out_y_v, out_y_v1, out_y_v2, out_y_v3);
      }
    }
  }
  out_y_v_shared[thread] = out_y_v;
  out_y_v1_shared[thread] = out_y_v1;
  out_y_v2_shared[thread] = out_y_v2;
  out_y_v3_shared[thread] = out_y_v3;
  barrier();
  for (uint reach = 32u; reach > 0u; reach >>= 1) {
    if (reduction_thread < reach) {
      out_y_v_join(out_y_v, out_y_v_shared[thread + reach]);
      out_y_v_shared[thread] = out_y_v;
      out_y_v1_join(out_y_v1, out_y_v1_shared[thread + reach]);
      out_y_v1_shared[thread] = out_y_v1;
      out_y_v2_join(out_y_v2, out_y_v2_shared[thread + reach]);
      out_y_v2_shared[thread] = out_y_v2;
      out_y_v3_join(out_y_v3, out_y_v3_shared[thread + reach]);
      out_y_v3_shared[thread] = out_y_v3;
    }
    barrier();
  }
  out_y_v = out_y_v_shared[thread - reduction_thread];
  out_y_v1 = out_y_v1_shared[thread - reduction_thread];
  out_y_v2 = out_y_v2_shared[thread - reduction_thread];
  out_y_v3 = out_y_v3_shared[thread - reduction_thread];
  if (inside && reduction_thread == 0u) {
    uint out_y_i = row;
    uint out_y_mask = 0xffffu << ((out_y_i & 1u) * 16u);
    atomicAnd(out_y.w[out_y_i >> 1], ~out_y_mask);
    atomicOr(out_y.w[out_y_i >> 1], f16x2_bits(vec2(out_y_v)) & out_y_mask);
    uint out_y_i1 = row + 256u;
    uint out_y_mask1 = 0xffffu << ((out_y_i1 & 1u) * 16u);
    atomicAnd(out_y.w[out_y_i1 >> 1], ~out_y_mask1);
    atomicOr(out_y.w[out_y_i1 >> 1], f16x2_bits(vec2(out_y_v1)) & out_y_mask1);
    uint out_y_i2 = row + 512u;
    uint out_y_mask2 = 0xffffu << ((out_y_i2 & 1u) * 16u);
    atomicAnd(out_y.w[out_y_i2 >> 1], ~out_y_mask2);
    atomicOr(out_y.w[out_y_i2 >> 1], f16x2_bits(vec2(out_y_v2)) & out_y_mask2);
    uint out_y_i3 = row + 768u;
    uint out_y_mask3 = 0xffffu << ((out_y_i3 & 1u) * 16u);
    atomicAnd(out_y.w[out_y_i3 >> 1], ~out_y_mask3);
    atomicOr(out_y.w[out_y_i3 >> 1], f16x2_bits(vec2(out_y_v3)) & out_y_mask3);
  }
}
