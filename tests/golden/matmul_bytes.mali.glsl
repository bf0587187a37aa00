#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "matmul of bytes, scaled": cast, cast, dot, cast, mul, cast
// tiles of 64 x 64, 64 at a time along the sum; 4 x 4 per thread
layout(local_size_x_id = 0) in;
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int i8x4_dot(int a, int b, spirv_literal int packed);  // the sum of four products of bytes

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec2 w[]; } in_x;  // %0 : i8[1000, 1024]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec2 w[]; } in_w;  // %2 : i8[1024, 768]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_scale;  // %6 : f32[768]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %8 : f16[1000, 768]

uvec4 u8x4_values(uint word) {
  return (uvec4(word) >> uvec4(0u, 8u, 16u, 24u)) & 0xffu;
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared ivec4 v1_tile[272];  // a word is four neighbours along the sum
shared ivec4 v3_tile[272];  // a word is four neighbours along the sum

// One element of the results.
void result_element(float in_scale, int v4_v, out float out_y_result) {
  precise float v5 = float(v4_v);
  precise float v7 = v5 * in_scale;
  precise float out_y = v7;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint swizzle = workgroup / 96u;
  uint in_swizzle = workgroup % 96u;
  uint tile_m = swizzle * 8u + in_swizzle % 8u;
  uint tile_n = in_swizzle / 8u;
  uint thread_m = thread / 16u;
  uint thread_n = thread % 16u;
  ivec4 v4_v_sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) v4_v_sums[i] = ivec4(0);
  uvec2 in_x_e_w0[2];
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint row = u * 32u + thread / 8u;
    uint column = thread % 8u;
    uint m = min(tile_m * 64u + row, 1000u - 1u);
    uint chunk = column;
    in_x_e_w0[u] = in_x.w[m * 128u + chunk];
  }
  for (uint step = 0u; step < 16u; ++step) {
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint row = u * 32u + thread / 8u;
      uint column = thread % 8u;
      uint m = min(tile_m * 64u + row, 1000u - 1u);
      uint chunk = step * 8u + column;
      v1_tile[(column * 2u + 0u) * 17u + row / 4u][row % 4u] = int(in_x_e_w0[u].x);
      v1_tile[(column * 2u + 1u) * 17u + row / 4u][row % 4u] = int(in_x_e_w0[u].y);
    }
    {
      uint unit = thread;
      if (unit < 128u) {
        uint row = unit % 8u;
        uint column = unit / 8u;
        uint chunk = tile_n * 8u + row;
        ivec4 words_0 = ivec4(0);
        ivec4 words_1 = ivec4(0);
        [[unroll]] for (uint d = 0u; d < 4u; ++d) {
          uint k = step * 64u + column * 4u + d;
          uvec2 in_w_w0 = in_w.w[chunk + k * 96u];
          words_0 |= ivec4(u8x4_values(in_w_w0.x)) << (d * 8u);
          words_1 |= ivec4(u8x4_values(in_w_w0.y)) << (d * 8u);
        }
        v3_tile[column * 17u + row * 2u + 0u] = words_0;
        v3_tile[column * 17u + row * 2u + 1u] = words_1;
      }
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 16u - 1u);
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint row = u * 32u + thread / 8u;
      uint column = thread % 8u;
      uint m = min(tile_m * 64u + row, 1000u - 1u);
      uint chunk = next * 8u + column;
      in_x_e_w0[u] = in_x.w[m * 128u + chunk];
    }
    for (uint k = 0u; k < 16u; ++k) {
      ivec4 v1_factor_0 = v1_tile[k * 17u + thread_m];
      ivec4 v3_factor_0 = v3_tile[k * 17u + thread_n];
      v4_v_sums[0] += ivec4(i8x4_dot(v1_factor_0.x, v3_factor_0.x, 0), i8x4_dot(v1_factor_0.x, v3_factor_0.y, 0), i8x4_dot(v1_factor_0.x, v3_factor_0.z, 0), i8x4_dot(v1_factor_0.x, v3_factor_0.w, 0));
      v4_v_sums[1] += ivec4(i8x4_dot(v1_factor_0.y, v3_factor_0.x, 0), i8x4_dot(v1_factor_0.y, v3_factor_0.y, 0), i8x4_dot(v1_factor_0.y, v3_factor_0.z, 0), i8x4_dot(v1_factor_0.y, v3_factor_0.w, 0));
      v4_v_sums[2] += ivec4(i8x4_dot(v1_factor_0.z, v3_factor_0.x, 0), i8x4_dot(v1_factor_0.z, v3_factor_0.y, 0), i8x4_dot(v1_factor_0.z, v3_factor_0.z, 0), i8x4_dot(v1_factor_0.z, v3_factor_0.w, 0));
      v4_v_sums[3] += ivec4(i8x4_dot(v1_factor_0.w, v3_factor_0.x, 0), i8x4_dot(v1_factor_0.w, v3_factor_0.y, 0), i8x4_dot(v1_factor_0.w, v3_factor_0.z, 0), i8x4_dot(v1_factor_0.w, v3_factor_0.w, 0));
    }
    barrier();
  }
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    uint m = tile_m * 64u + thread_m * 4u + i;
    [[unroll]] for (uint g = 0u; g < 1u; ++g) {
      uint chunk = tile_n * 16u + g * 16u + thread_n;
      if (m < 1000u) {
        uvec4 in_scale_w0 = in_scale.w[chunk];
        vec4 in_scale_0 = uintBitsToFloat(in_scale_w0);
        vec4 out_y_0;
        result_element(in_scale_0[0], v4_v_sums[i].x, out_y_0[0]);
        result_element(in_scale_0[1], v4_v_sums[i].y, out_y_0[1]);
        result_element(in_scale_0[2], v4_v_sums[i].z, out_y_0[2]);
        result_element(in_scale_0[3], v4_v_sums[i].w, out_y_0[3]);
        out_y.w[m * 192u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
  }
}
