#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// segment 0 of graph "a vector times int4 weights": reshape, iota, mul, shift_right, bit_and, reshape, cast, bit_xor, ... 18 ops in all
// 16 threads per row, 8 rows per workgroup, 32 elements per chunk, 1 chunk per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f16[1, 512]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_weights;  // %1 : u8[256, 256]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_scale;  // %16 : f16[256, 4]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint16_t w[]; } out_y;  // %24 : f16[1, 256]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// Numbers of a few bits become floats among the low bits of powers of 2. The driver is not to know these: with two constants that
// it knows, an `and` and an `xor` are two instructions.
vec4 field_values(uint word, uvec4 bits) {
  precise vec4 values = uintBitsToFloat((uvec4(word) & uvec4(0xfu, 0xf0u, 0xf00u, 0xf000u)) ^ bits) - vec4(8388616.0, 524296.0, 32776.0, 2056.0);
  return values;
}

vec4 field_values1(uint word, uvec4 bits) {
  precise vec4 values = uintBitsToFloat((uvec4(word, word >> 20u, word >> 20u, word >> 20u) & uvec4(0xf0000u, 0xfu, 0xf0u, 0xf00u)) ^ bits) - vec4(136.0, 8388616.0, 524296.0, 32776.0);
  return values;
}

void out_y_v_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(float in_a, float v15, inout float out_y_v) {
  precise float out_y_v_more = fma(in_a, v15, out_y_v);
  out_y_v = out_y_v_more;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint reduction_thread = thread % 16u;
  uint row = workgroup * 8u + thread / 16u;
  // Powers of 2, and what of the numbers is flipped.
  uvec4 field_bits = uvec4(0x4b000008u, 0x49000080u, 0x47000800u, 0x45008000u) + (p.chunks & 0x80000000u);
  uvec4 field_bits1 = uvec4(0x43080000u, 0x4b000008u, 0x49000080u, 0x47000800u) + (p.chunks & 0x80000000u);
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  uint column = reduction_thread;
  float out_y_v = 0.0;
  {
    uvec4 in_a_w0 = in_a.w[column * 4u];
    uvec4 in_a_w1 = in_a.w[column * 4u + 1u];
    uvec4 in_a_w2 = in_a.w[column * 4u + 2u];
    uvec4 in_a_w3 = in_a.w[column * 4u + 3u];
    uvec4 in_weights_w0 = in_weights.w[row * 16u + column];
    uint q = column / 4u;
    uint in_scale_i = row * 4u + q;
    float in_scale_e = f16x2_values_native(in_scale.w[in_scale_i >> 1] >> ((in_scale_i & 1u) * 16u))[0];
    precise float v18 = in_scale_e * 0.03125;
    float out_y_v_item = 0.0;
    vec4 in_a_0 = vec4(f16x2_values_native(in_a_w0.x), f16x2_values_native(in_a_w0.y));
    vec4 v15_floats_0 = field_values(in_weights_w0.x, field_bits);
    pass0(in_a_0[0], v15_floats_0[0], out_y_v_item);
    pass0(in_a_0[1], v15_floats_0[1], out_y_v_item);
    pass0(in_a_0[2], v15_floats_0[2], out_y_v_item);
    pass0(in_a_0[3], v15_floats_0[3], out_y_v_item);
    vec4 in_a_1 = vec4(f16x2_values_native(in_a_w0.z), f16x2_values_native(in_a_w0.w));
    vec4 v15_floats_1 = field_values1(in_weights_w0.x, field_bits1);
    pass0(in_a_1[0], v15_floats_1[0], out_y_v_item);
    pass0(in_a_1[1], v15_floats_1[1], out_y_v_item);
    pass0(in_a_1[2], v15_floats_1[2], out_y_v_item);
    pass0(in_a_1[3], v15_floats_1[3], out_y_v_item);
    vec4 in_a_2 = vec4(f16x2_values_native(in_a_w1.x), f16x2_values_native(in_a_w1.y));
    vec4 v15_floats_2 = field_values(in_weights_w0.y, field_bits);
    pass0(in_a_2[0], v15_floats_2[0], out_y_v_item);
    pass0(in_a_2[1], v15_floats_2[1], out_y_v_item);
    pass0(in_a_2[2], v15_floats_2[2], out_y_v_item);
    pass0(in_a_2[3], v15_floats_2[3], out_y_v_item);
    vec4 in_a_3 = vec4(f16x2_values_native(in_a_w1.z), f16x2_values_native(in_a_w1.w));
    vec4 v15_floats_3 = field_values1(in_weights_w0.y, field_bits1);
    pass0(in_a_3[0], v15_floats_3[0], out_y_v_item);
    pass0(in_a_3[1], v15_floats_3[1], out_y_v_item);
    pass0(in_a_3[2], v15_floats_3[2], out_y_v_item);
    pass0(in_a_3[3], v15_floats_3[3], out_y_v_item);
    vec4 in_a_4 = vec4(f16x2_values_native(in_a_w2.x), f16x2_values_native(in_a_w2.y));
    vec4 v15_floats_4 = field_values(in_weights_w0.z, field_bits);
    pass0(in_a_4[0], v15_floats_4[0], out_y_v_item);
    pass0(in_a_4[1], v15_floats_4[1], out_y_v_item);
    pass0(in_a_4[2], v15_floats_4[2], out_y_v_item);
    pass0(in_a_4[3], v15_floats_4[3], out_y_v_item);
    vec4 in_a_5 = vec4(f16x2_values_native(in_a_w2.z), f16x2_values_native(in_a_w2.w));
    vec4 v15_floats_5 = field_values1(in_weights_w0.z, field_bits1);
    pass0(in_a_5[0], v15_floats_5[0], out_y_v_item);
    pass0(in_a_5[1], v15_floats_5[1], out_y_v_item);
    pass0(in_a_5[2], v15_floats_5[2], out_y_v_item);
    pass0(in_a_5[3], v15_floats_5[3], out_y_v_item);
    vec4 in_a_6 = vec4(f16x2_values_native(in_a_w3.x), f16x2_values_native(in_a_w3.y));
    vec4 v15_floats_6 = field_values(in_weights_w0.w, field_bits);
    pass0(in_a_6[0], v15_floats_6[0], out_y_v_item);
    pass0(in_a_6[1], v15_floats_6[1], out_y_v_item);
    pass0(in_a_6[2], v15_floats_6[2], out_y_v_item);
    pass0(in_a_6[3], v15_floats_6[3], out_y_v_item);
    vec4 in_a_7 = vec4(f16x2_values_native(in_a_w3.z), f16x2_values_native(in_a_w3.w));
    vec4 v15_floats_7 = field_values1(in_weights_w0.w, field_bits1);
    pass0(in_a_7[0], v15_floats_7[0], out_y_v_item);
    pass0(in_a_7[1], v15_floats_7[1], out_y_v_item);
    pass0(in_a_7[2], v15_floats_7[2], out_y_v_item);
    pass0(in_a_7[3], v15_floats_7[3], out_y_v_item);
    out_y_v = fma(out_y_v_item, v18, out_y_v);
  }
  for (uint mask = 8u; mask > 0u; mask >>= 1) {
    out_y_v_join(out_y_v, subgroupShuffleXor(out_y_v, mask));
  }
  if (inside && reduction_thread == 0u) {
    out_y.w[row] = uint16_t(f16x2_bits_native(vec2(out_y_v)));
  }
}
