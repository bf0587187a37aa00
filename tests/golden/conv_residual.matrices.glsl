#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "convolution, residual, relu": reshape, pad, reshape, unfold, unfold, dot, permute, reshape, ... 10 ops in all
// tiles of 64 x 64, 64 at a time along the sum; 32 x 32 per subgroup of 32, in products of 16 x 16 x 16
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles of all matrices
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_w;  // %0 : f16[64, 64, 3, 3]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_x;  // %2 : f16[8, 64, 56, 56]
layout(set = 0, binding = 2) ALIASED readonly buffer Buffer2 { uvec2 w[]; } in_residual;  // %11 : f16[8, 64, 56, 56]
layout(set = 0, binding = 3) ALIASED writeonly buffer Buffer3 { uvec2 w[]; } out_y;  // %13 : f16[8, 64, 56, 56]

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

shared uvec4 in_w_e_tile[576];
shared uvec4 v4_tile[576];
shared vec4 v8_v_subtiles[576];

// One element of the results.
void result_element(float in_residual, float v8_v, out float out_y_result) {
  precise float v12 = v8_v + in_residual;
  precise float out_y = f32_max_bits(v12, 0.0);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (workgroup >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint tile_m = workgroup % 1u;
  uint tile_n = workgroup / 1u;
  uint subgroup = gl_SubgroupID;
  uint subgroup_m = subgroup / 2u;
  uint subgroup_n = subgroup % 2u;
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> v8_v_sums[4];
  [[unroll]] for (uint i = 0u; i < 4u; ++i) v8_v_sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  uvec4 in_w_e_w0[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint row = u * 16u + thread / 8u;
    uint column = thread % 8u;
    uint m = tile_m * 64u + row;
    uint chunk = column;
    in_w_e_w0[u] = in_w.w[m * 72u + chunk];
  }
  uint in_x_e_w0[4];
  uint in_x_e_w1[4];
  uint in_x_e_w2[4];
  uint in_x_e_w3[4];
  uint in_x_e_w4[4];
  uint in_x_e_odd[4];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint column = u * 16u + thread / 8u;
    uint row = thread % 8u;
    uint chunk = tile_n * 8u + row;
    uint k = column;
    uint q = k / 9u;
    uint q1 = chunk / 392u;
    uint r = k % 3u;
    uint q2 = k / 3u;
    uint r1 = q2 % 3u;
    uint r2 = chunk % 392u;
    int in_x_at = int(q * 3136u + q1 * 200704u + r + r1 * 56u + r2 * 8u - 57u);
    in_x_e_w0[u] = in_x.w[min(uint(in_x_at >> 1), 802815u)];
    in_x_e_w1[u] = in_x.w[min(uint(in_x_at >> 1) + 1u, 802815u)];
    in_x_e_w2[u] = in_x.w[min(uint(in_x_at >> 1) + 2u, 802815u)];
    in_x_e_w3[u] = in_x.w[min(uint(in_x_at >> 1) + 3u, 802815u)];
    in_x_e_w4[u] = in_x.w[min(uint(in_x_at >> 1) + 4u, 802815u)];
    in_x_e_odd[u] = uint(in_x_at) & 1u;
  }
  for (uint step = 0u; step < 9u; ++step) {
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = u * 16u + thread / 8u;
      uint column = thread % 8u;
      uint m = tile_m * 64u + row;
      uint chunk = step * 8u + column;
      in_w_e_tile[row * 9u + column] = in_w_e_w0[u];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint column = u * 16u + thread / 8u;
      uint row = thread % 8u;
      uint chunk = tile_n * 8u + row;
      uint k = step * 64u + column;
      uint in_x_e_0 = mix(in_x_e_w0[u], (in_x_e_w0[u] >> 16) | (in_x_e_w1[u] << 16), in_x_e_odd[u] != 0u);
      uint in_x_e_1 = mix(in_x_e_w1[u], (in_x_e_w1[u] >> 16) | (in_x_e_w2[u] << 16), in_x_e_odd[u] != 0u);
      uint in_x_e_2 = mix(in_x_e_w2[u], (in_x_e_w2[u] >> 16) | (in_x_e_w3[u] << 16), in_x_e_odd[u] != 0u);
      uint in_x_e_3 = mix(in_x_e_w3[u], (in_x_e_w3[u] >> 16) | (in_x_e_w4[u] << 16), in_x_e_odd[u] != 0u);
      uint q = k / 3u;
      uint r = q % 3u;
      uint q1 = chunk / 7u;
      uint r1 = q1 % 56u;
      bool v4_inside = ((r + r1 - 1u) < 56u);
      uint r2 = k % 3u;
      uint r3 = chunk % 7u;
      uint v4_0 = (v4_inside && ((r2 + r3 * 8u - 1u) < 56u) ? in_x_e_0 & 0xffffu : 0u) | (v4_inside ? in_x_e_0 & 0xffff0000u : 0u);
      uint v4_1 = v4_inside ? in_x_e_1 : 0u;
      uint v4_2 = v4_inside ? in_x_e_2 : 0u;
      uint v4_3 = (v4_inside ? in_x_e_3 & 0xffffu : 0u) | (v4_inside && ((r2 + r3 * 8u + 6u) < 56u) ? in_x_e_3 & 0xffff0000u : 0u);
      v4_tile[column * 9u + row] = uvec4(v4_0, v4_1, v4_2, v4_3);
    }
    barrier();
    // The next piece is on its way while this one is multiplied.
    uint next = min(step + 1u, 9u - 1u);
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint row = u * 16u + thread / 8u;
      uint column = thread % 8u;
      uint m = tile_m * 64u + row;
      uint chunk = next * 8u + column;
      in_w_e_w0[u] = in_w.w[m * 72u + chunk];
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint column = u * 16u + thread / 8u;
      uint row = thread % 8u;
      uint chunk = tile_n * 8u + row;
      uint k = next * 64u + column;
      uint q = k / 9u;
      uint q1 = chunk / 392u;
      uint r = k % 3u;
      uint q2 = k / 3u;
      uint r1 = q2 % 3u;
      uint r2 = chunk % 392u;
      int in_x_at = int(q * 3136u + q1 * 200704u + r + r1 * 56u + r2 * 8u - 57u);
      in_x_e_w0[u] = in_x.w[min(uint(in_x_at >> 1), 802815u)];
      in_x_e_w1[u] = in_x.w[min(uint(in_x_at >> 1) + 1u, 802815u)];
      in_x_e_w2[u] = in_x.w[min(uint(in_x_at >> 1) + 2u, 802815u)];
      in_x_e_w3[u] = in_x.w[min(uint(in_x_at >> 1) + 3u, 802815u)];
      in_x_e_w4[u] = in_x.w[min(uint(in_x_at >> 1) + 4u, 802815u)];
      in_x_e_odd[u] = uint(in_x_at) & 1u;
    }
    [[unroll]] for (uint k = 0u; k < 64u; k += 16u) {
      coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> in_w_e_factor[2];
      [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        coopMatLoad(in_w_e_factor[i], in_w_e_tile, (subgroup_m * 32u + i * 16u) * 9u + k / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> v4_factor;
        coopMatLoad(v4_factor, v4_tile, (k) * 9u + (subgroup_n * 32u + j * 16u) / 8u, 9u, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
          v8_v_sums[i * 2u + j] = coopMatMulAdd(in_w_e_factor[i], v4_factor, v8_v_sums[i * 2u + j]);
        }
      }
    }
    barrier();
  }
  uint own = subgroup * 144u;
  uvec2 in_residual_w0[8];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint g = gl_SubgroupInvocationID + u * 32u;
    uint row = g / 8u;
    uint column = g % 8u;
    uint in_tile = subgroup_m * 32u + row;
    uint m = tile_m * 64u + in_tile;
    uint chunk = tile_n * 16u + subgroup_n * 8u + column;
    uint q = chunk / 784u;
    uint r = chunk % 784u;
    in_residual_w0[u] = in_residual.w[m * 784u + q * 50176u + r];
  }
  [[unroll]] for (uint i = 0u; i < 2u; ++i) {
    coopMatStore(v8_v_sums[i * 2u + 0u], v8_v_subtiles, own + 0u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(v8_v_sums[i * 2u + 1u], v8_v_subtiles, own + 4u, 9u, gl_CooperativeMatrixLayoutRowMajor);
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    if (i + 1u < 2u) {
      uint next = i + 1u;
      [[unroll]] for (uint u = 0u; u < 4u; ++u) {
        uint g = gl_SubgroupInvocationID + u * 32u;
        uint row = g / 8u;
        uint column = g % 8u;
        uint in_tile = subgroup_m * 32u + next * 16u + row;
        uint m = tile_m * 64u + in_tile;
        uint chunk = tile_n * 16u + subgroup_n * 8u + column;
        uint q = chunk / 784u;
        uint r = chunk % 784u;
        in_residual_w0[next % 2u * 4u + u] = in_residual.w[m * 784u + q * 50176u + r];
      }
    }
    [[unroll]] for (uint u = 0u; u < 4u; ++u) {
      uint g = gl_SubgroupInvocationID + u * 32u;
      uint row = g / 8u;
      uint column = g % 8u;
      uint in_tile = subgroup_m * 32u + i * 16u + row;
      uint m = tile_m * 64u + in_tile;
      uint chunk = tile_n * 16u + subgroup_n * 8u + column;
      vec4 v8_v_four = v8_v_subtiles[own + row * 9u + column];
      vec4 in_residual_0 = vec4(f16x2_values_native(in_residual_w0[i % 2u * 4u + u].x), f16x2_values_native(in_residual_w0[i % 2u * 4u + u].y));
      vec4 out_y_0;
      result_element(in_residual_0[0], v8_v_four.x, out_y_0[0]);
      result_element(in_residual_0[1], v8_v_four.y, out_y_0[1]);
      result_element(in_residual_0[2], v8_v_four.z, out_y_0[2]);
      result_element(in_residual_0[3], v8_v_four.w, out_y_0[3]);
      uint q = chunk / 784u;
      uint r = chunk % 784u;
      out_y.w[m * 784u + q * 50176u + r] = uvec2(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw));
    }
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  }
}
