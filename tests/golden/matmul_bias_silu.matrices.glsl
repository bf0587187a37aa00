#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "matmul, bias, silu": dot, add, sigmoid, mul
// tiles of 128 x 64, 64 at a time along the sum; 32 x 32 per subgroup of 32, in products of 16 x 16 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[1000, 1024]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_w;  // %1 : f16[1024, 768]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec2 w[]; } in_bias;  // %3 : f16[768]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %6 : f16[1000, 768]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// e^-x is held below 2^126, where Vulkan bounds the division.
float f16_sigmoid(float x) {
  precise float power = exp2(min(x * -1.442695, 125.0));
  precise float result = 1.0 / (1.0 + power);
  return f32_is_nan(x) ? x : result;
}

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uvec4 in_x_e_tile[1152];
shared uvec4 in_w_tile[576];
shared vec4 v2_v_subtiles[1152];

// One element of the results.
void result_element(float in_bias, float v2_v, out float out_y_result) {
  precise float v4 = v2_v + in_bias;
  precise float v5 = f16_sigmoid(v4);
  precise float out_y = v5 * v4;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint tile_m = workgroup % 8u;
  uint tile_n = workgroup / 8u;
  uint subgroup = gl_SubgroupID;
  uint subgroup_m = subgroup / 2u;
  uint subgroup_n = subgroup % 2u;
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> v2_v_sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) v2_v_sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  uvec4 in_x_e_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint row = u * 32u + thread / 8u;
    uint column = thread % 8u;
    uint m = min(tile_m * 128u + row, 1000u - 1u);
    uint chunk = column;
    in_x_e_w0[u] = in_x.w[m * 128u + chunk];
  }
  uvec4 in_w_w0[2];
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint column = u * 32u + thread / 8u;
    uint row = thread % 8u;
    uint chunk = tile_n * 8u + row;
    uint k = column;
    in_w_w0[u] = in_w.w[chunk + k * 96u];
  }
  for (uint step = 0u; step < 16u; ++step) {
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = u * 32u + thread / 8u;
      uint column = thread % 8u;
      uint m = min(tile_m * 128u + row, 1000u - 1u);
      uint chunk = step * 8u + column;
      in_x_e_tile[row * 9u + column] = in_x_e_w0[u];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = u * 32u + thread / 8u;
      uint row = thread % 8u;
      uint chunk = tile_n * 8u + row;
      uint k = step * 64u + column;
      in_w_tile[column * 9u + row] = in_w_w0[u];
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 16u - 1u);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = u * 32u + thread / 8u;
      uint column = thread % 8u;
      uint m = min(tile_m * 128u + row, 1000u - 1u);
      uint chunk = next * 8u + column;
      in_x_e_w0[u] = in_x.w[m * 128u + chunk];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = u * 32u + thread / 8u;
      uint row = thread % 8u;
      uint chunk = tile_n * 8u + row;
      uint k = next * 64u + column;
      in_w_w0[u] = in_w.w[chunk + k * 96u];
    }
    [[unroll]] for (uint k = 0u; k < 64u; k += 16u) {
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_x_e_factor[2];
      [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        coopMatLoad(in_x_e_factor[i], in_x_e_tile, (subgroup_m * 32u + i * 16u) * 9u + k / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> in_w_factor;
        coopMatLoad(in_w_factor, in_w_tile, (k) * 9u + (subgroup_n * 32u + j * 16u) / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
          v2_v_sums[i * 2u + j] = coopMatMulAdd(in_x_e_factor[i], in_w_factor, v2_v_sums[i * 2u + j]);
        }
      }
    }
    barrier();
  }
  uint own = subgroup * 144u;
  uvec2 in_bias_w0[8];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint g = gl_SubgroupInvocationID + u * 32u;
    uint row = g / 8u;
    uint column = g % 8u;
    uint in_tile = subgroup_m * 32u + row;
    uint m = min(tile_m * 128u + in_tile, 1000u - 1u);
    uint chunk = tile_n * 16u + subgroup_n * 8u + column;
    in_bias_w0[u] = in_bias.w[chunk];
  }
  [[unroll]] for (uint i = 0u; i < 2u; ++i) {
    coopMatStore(v2_v_sums[i * 2u + 0u], v2_v_subtiles, own + 0u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(v2_v_sums[i * 2u + 1u], v2_v_subtiles, own + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    if (i + 1u < 2u) {
      uint next = i + 1u;
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        uint g = gl_SubgroupInvocationID + u * 32u;
        uint row = g / 8u;
        uint column = g % 8u;
        uint in_tile = subgroup_m * 32u + next * 16u + row;
        uint m = min(tile_m * 128u + in_tile, 1000u - 1u);
        uint chunk = tile_n * 16u + subgroup_n * 8u + column;
        in_bias_w0[next % 2u * 4u + u] = in_bias.w[chunk];
      }
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint g = gl_SubgroupInvocationID + u * 32u;
      uint row = g / 8u;
      uint column = g % 8u;
      uint in_tile = subgroup_m * 32u + i * 16u + row;
      uint m = tile_m * 128u + in_tile;
      uint chunk = tile_n * 16u + subgroup_n * 8u + column;
      vec4 v2_v_four = v2_v_subtiles[own + row * 9u + column];
      if (m < 1000u) {
        vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0[i % 2u * 4u + u].x), f16x2_values_native(in_bias_w0[i % 2u * 4u + u].y));
        vec4 out_y_0;
        result_element(in_bias_0[0], v2_v_four.x, out_y_0[0]);
        result_element(in_bias_0[1], v2_v_four.y, out_y_0[1]);
        result_element(in_bias_0[2], v2_v_four.z, out_y_0[2]);
        result_element(in_bias_0[3], v2_v_four.w, out_y_0[3]);
        out_y.w[m * 192u + chunk] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
      }
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  }
}
