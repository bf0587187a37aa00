#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "rows times weights of four bits with a scale for each 128": reshape, iota, mul, shift_right, bit_and, cast, sub, reshape, ... 11 ops in all
// tiles of 128 x 128, 64 at a time along the sum; 64 x 64 per subgroup of 32, in products of 16 x 16 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[512, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_w;  // %1 : u8[14336, 2048]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_scales;  // %13 : f16[14336, 32, 1]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %16 : f16[512, 14336]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uvec4 in_x_e_tile[1152];
shared uvec4 v14_tile[1152];
shared vec4 out_y_v_subtiles[576];

// One element of an operand.
void v14_factor_element(float in_scales_e, float v11, out float tile_operand) {
  precise float v14 = v11 * in_scales_e;
  tile_operand = v14;
}

// One element of the results.
void result_element(float out_y_v, out float out_y_result) {
  out_y_result = out_y_v;
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

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint tile_m = workgroup % 4u;
  uint tile_n = workgroup / 4u;
  uint subgroup = gl_SubgroupID;
  uint subgroup_m = subgroup / 2u;
  uint subgroup_n = subgroup % 2u;
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> out_y_v_sums[16];
  [[unroll]] for (uint i = 0u; i < 16u; ++i) out_y_v_sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  // Powers of 2, and what of the numbers is flipped.
  uvec4 field_bits = uvec4(0x4b000000u, 0x49000000u, 0x47000000u, 0x45000000u) + (p.chunks & 0x80000000u);
  uvec4 field_bits1 = uvec4(0x43000000u, 0x4b000000u, 0x49000000u, 0x47000000u) + (p.chunks & 0x80000000u);
  uvec4 in_w_w0[2];
  float in_scales_e_ahead[2];
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint row = u * 64u + thread / 2u;
    uint column = thread % 2u;
    uint n = tile_n * 128u + row;
    uint chunk = column;
    in_w_w0[u] = in_w.w[n * 128u + chunk];
    uint q = chunk / 4u;
    uint in_scales_i = n * 32u + q;
    float in_scales_e = f16x2_values_native(in_scales.w[in_scales_i >> 1] >> ((in_scales_i & 1u) * 16u))[0];
    in_scales_e_ahead[u] = in_scales_e;
  }
  for (uint step = 0u; step < 64u; ++step) {
    // A few loads at a time: all of them would crowd out what has been added up.
    [[dont_unroll]] for (uint start = 0u; start < 8u; start += 4u) {
      [[unroll]] for (uint u = start; u < start + 4u; ++u) {
        uint row = u * 16u + thread / 8u;
        uint column = thread % 8u;
        uint m = tile_m * 128u + row;
        uint chunk = step * 8u + column;
        uvec4 in_x_e_w0 = in_x.w[m * 512u + chunk];
        in_x_e_tile[row * 9u + column] = in_x_e_w0;
      }
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint row = u * 64u + thread / 2u;
      uint column = thread % 2u;
      uint n = tile_n * 128u + row;
      uint chunk = step * 2u + column;
      vec4 v11_0 = field_values(in_w_w0[u].x, field_bits);
      vec4 factor_0;
      v14_factor_element(in_scales_e_ahead[u], v11_0[0], factor_0[0]);
      v14_factor_element(in_scales_e_ahead[u], v11_0[1], factor_0[1]);
      v14_factor_element(in_scales_e_ahead[u], v11_0[2], factor_0[2]);
      v14_factor_element(in_scales_e_ahead[u], v11_0[3], factor_0[3]);
      vec4 v11_1 = field_values1(in_w_w0[u].x, field_bits1);
      vec4 factor_1;
      v14_factor_element(in_scales_e_ahead[u], v11_1[0], factor_1[0]);
      v14_factor_element(in_scales_e_ahead[u], v11_1[1], factor_1[1]);
      v14_factor_element(in_scales_e_ahead[u], v11_1[2], factor_1[2]);
      v14_factor_element(in_scales_e_ahead[u], v11_1[3], factor_1[3]);
      vec4 v11_2 = field_values(in_w_w0[u].y, field_bits);
      vec4 factor_2;
      v14_factor_element(in_scales_e_ahead[u], v11_2[0], factor_2[0]);
      v14_factor_element(in_scales_e_ahead[u], v11_2[1], factor_2[1]);
      v14_factor_element(in_scales_e_ahead[u], v11_2[2], factor_2[2]);
      v14_factor_element(in_scales_e_ahead[u], v11_2[3], factor_2[3]);
      vec4 v11_3 = field_values1(in_w_w0[u].y, field_bits1);
      vec4 factor_3;
      v14_factor_element(in_scales_e_ahead[u], v11_3[0], factor_3[0]);
      v14_factor_element(in_scales_e_ahead[u], v11_3[1], factor_3[1]);
      v14_factor_element(in_scales_e_ahead[u], v11_3[2], factor_3[2]);
      v14_factor_element(in_scales_e_ahead[u], v11_3[3], factor_3[3]);
      vec4 v11_4 = field_values(in_w_w0[u].z, field_bits);
      vec4 factor_4;
      v14_factor_element(in_scales_e_ahead[u], v11_4[0], factor_4[0]);
      v14_factor_element(in_scales_e_ahead[u], v11_4[1], factor_4[1]);
      v14_factor_element(in_scales_e_ahead[u], v11_4[2], factor_4[2]);
      v14_factor_element(in_scales_e_ahead[u], v11_4[3], factor_4[3]);
      vec4 v11_5 = field_values1(in_w_w0[u].z, field_bits1);
      vec4 factor_5;
      v14_factor_element(in_scales_e_ahead[u], v11_5[0], factor_5[0]);
      v14_factor_element(in_scales_e_ahead[u], v11_5[1], factor_5[1]);
      v14_factor_element(in_scales_e_ahead[u], v11_5[2], factor_5[2]);
      v14_factor_element(in_scales_e_ahead[u], v11_5[3], factor_5[3]);
      vec4 v11_6 = field_values(in_w_w0[u].w, field_bits);
      vec4 factor_6;
      v14_factor_element(in_scales_e_ahead[u], v11_6[0], factor_6[0]);
      v14_factor_element(in_scales_e_ahead[u], v11_6[1], factor_6[1]);
      v14_factor_element(in_scales_e_ahead[u], v11_6[2], factor_6[2]);
      v14_factor_element(in_scales_e_ahead[u], v11_6[3], factor_6[3]);
      vec4 v11_7 = field_values1(in_w_w0[u].w, field_bits1);
      vec4 factor_7;
      v14_factor_element(in_scales_e_ahead[u], v11_7[0], factor_7[0]);
      v14_factor_element(in_scales_e_ahead[u], v11_7[1], factor_7[1]);
      v14_factor_element(in_scales_e_ahead[u], v11_7[2], factor_7[2]);
      v14_factor_element(in_scales_e_ahead[u], v11_7[3], factor_7[3]);
      v14_tile[row * 9u + column * 4u + 0u] = uvec4(f16x2_bits_native(factor_0.xy), f16x2_bits_native(factor_0.zw), f16x2_bits_native(factor_1.xy), f16x2_bits_native(factor_1.zw));
      v14_tile[row * 9u + column * 4u + 1u] = uvec4(f16x2_bits_native(factor_2.xy), f16x2_bits_native(factor_2.zw), f16x2_bits_native(factor_3.xy), f16x2_bits_native(factor_3.zw));
      v14_tile[row * 9u + column * 4u + 2u] = uvec4(f16x2_bits_native(factor_4.xy), f16x2_bits_native(factor_4.zw), f16x2_bits_native(factor_5.xy), f16x2_bits_native(factor_5.zw));
      v14_tile[row * 9u + column * 4u + 3u] = uvec4(f16x2_bits_native(factor_6.xy), f16x2_bits_native(factor_6.zw), f16x2_bits_native(factor_7.xy), f16x2_bits_native(factor_7.zw));
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 64u - 1u);
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint row = u * 64u + thread / 2u;
      uint column = thread % 2u;
      uint n = tile_n * 128u + row;
      uint chunk = next * 2u + column;
      in_w_w0[u] = in_w.w[n * 128u + chunk];
      uint q = chunk / 4u;
      uint in_scales_i = n * 32u + q;
      float in_scales_e = f16x2_values_native(in_scales.w[in_scales_i >> 1] >> ((in_scales_i & 1u) * 16u))[0];
      in_scales_e_ahead[u] = in_scales_e;
    }
    [[unroll]] for (uint k = 0u; k < 64u; k += 16u) {
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_x_e_factor[4];
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        coopMatLoad(in_x_e_factor[i], in_x_e_tile, (subgroup_m * 64u + i * 16u) * 9u + k / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> v14_factor;
        coopMatLoad(v14_factor, v14_tile, (subgroup_n * 64u + j * 16u) * 9u + k / 8u, 9u, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
          out_y_v_sums[i * 4u + j] = coopMatMulAdd(in_x_e_factor[i], v14_factor, out_y_v_sums[i * 4u + j]);
        }
      }
    }
    barrier();
  }
  uint own = subgroup * 144u;
  [[unroll]] for (uint i = 0u; i < 8u; ++i) {
    coopMatStore(out_y_v_sums[i * 2u + 0u], out_y_v_subtiles, own + 0u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(out_y_v_sums[i * 2u + 1u], out_y_v_subtiles, own + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    for (uint g = gl_SubgroupInvocationID; g < 128u; g += 32u) {
      uint row = g / 8u;
      uint column = g % 8u;
      uint in_tile = subgroup_m * 64u + i / 2u * 16u + row;
      uint m = tile_m * 128u + in_tile;
      uint chunk = tile_n * 32u + subgroup_n * 16u + i % 2u * 8u + column;
      vec4 out_y_v_four = out_y_v_subtiles[own + row * 9u + column];
      vec4 out_y_0;
      result_element(out_y_v_four.x, out_y_0[0]);
      result_element(out_y_v_four.y, out_y_0[1]);
      result_element(out_y_v_four.z, out_y_0[2]);
      result_element(out_y_v_four.w, out_y_0[3]);
      out_y.w[m * 3584u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  }
}
