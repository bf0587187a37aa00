#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "a long vector times two matrices of int4 weights, and a gate": reshape, iota, mul, shift_right, bit_and, reshape, cast, sub, ... 25 ops in all
// 64 rows per workgroup, 4 tiles one after another; 4 subgroups share the columns, 256 at a time, in products of 16 x 8 x 16
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f16[1, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_gate;  // %1 : u8[14336, 2048]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_gate_scale;  // %13 : f16[14336, 32, 1]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uvec4 w[]; } in_up;  // %20 : u8[14336, 2048]
layout(set = 0, binding = 4) readonly buffer Buffer4 { uint w[]; } in_up_scale;  // %27 : f16[14336, 32, 1]
layout(set = 0, binding = 5) writeonly buffer Buffer5 { uint16_t w[]; } out_y;  // %32 : f16[1, 14336]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

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

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uvec4 words[576];
shared float row_parts[512];
shared float scales[128];
shared uvec4 vector_halves[512];

// Some bits of each 16 as numbers: among the low bits of a power of 2, which is then taken away. The driver is
// not to know the power: with two constants that it knows, an `and` and an `xor` are two instructions.
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> numbers_of(coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits, uint shift, uint mask, uint power, f16vec2 scale, f16vec2 less) {
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> numbers;
  [[unroll]] for (int i = 0; i < bits.length() / 2; ++i) {
    uint word = packFloat2x16(f16vec2(bits[2 * i], bits[2 * i + 1]));
    f16vec2 pair = fma(unpackFloat2x16(((word >> shift) & mask) ^ power), scale, -less);
    numbers[2 * i] = pair.x;
    numbers[2 * i + 1] = pair.y;
  }
  return numbers;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint subgroup = gl_SubgroupID;
  uint own_lane = gl_SubgroupInvocationID;
  uint own_words = subgroup * 144u;
  uint low = 0x64006400u + (p.chunks & 0x80000000u);
  uint high = 0x64006400u + (p.chunks & 0x80000000u);
  uint first_row = workgroup * 64u;
  uvec4 in_gate_w0[4];
  uvec4 in_up_w0[4];
  uint own_scales = subgroup * 32u;
  uint next_scales[1];
  uint next_shifts[1];
  [[unroll]] for (uint u = 0u; u < 4u; ++u) {
    uint row = min(first_row + u * 4u + own_lane / 8u, p.chunks - 1u);
    uint column = subgroup * 8u + own_lane % 8u;
    in_gate_w0[u] = in_gate.w[row * 128u + column];
  }
  [[unroll]] for (uint u = 0u; u < 1u; ++u) {
    uint i = u * 32u + own_lane;
    uint row = min(first_row + i / 2u, p.chunks - 1u);
    uint column = subgroup * 8u + i % 2u * 4u;
    uint q = column / 4u;
    uint in_gate_scale_i = row * 32u + q;
    next_scales[u] = in_gate_scale.w[in_gate_scale_i >> 1];
    next_shifts[u] = (in_gate_scale_i & 1u) * 16u;
  }
  // The vector, of which fragments meet every fourth element.
  [[unroll]] for (uint column = thread; column < 128u; column += 128u) {
    uvec4 in_a_w0 = in_a.w[column * 4u];
    uvec4 in_a_w1 = in_a.w[column * 4u + 1u];
    uvec4 in_a_w2 = in_a.w[column * 4u + 2u];
    uvec4 in_a_w3 = in_a.w[column * 4u + 3u];
    uint at = column / 2u * 8u + column % 2u;
    vec4 in_a_0 = vec4(f16x2_values_native(in_a_w0.x), f16x2_values_native(in_a_w0.y));
    vec4 in_a_1 = vec4(f16x2_values_native(in_a_w0.z), f16x2_values_native(in_a_w0.w));
    vec4 in_a_2 = vec4(f16x2_values_native(in_a_w1.x), f16x2_values_native(in_a_w1.y));
    vec4 in_a_3 = vec4(f16x2_values_native(in_a_w1.z), f16x2_values_native(in_a_w1.w));
    vec4 in_a_4 = vec4(f16x2_values_native(in_a_w2.x), f16x2_values_native(in_a_w2.y));
    vec4 in_a_5 = vec4(f16x2_values_native(in_a_w2.z), f16x2_values_native(in_a_w2.w));
    vec4 in_a_6 = vec4(f16x2_values_native(in_a_w3.x), f16x2_values_native(in_a_w3.y));
    vec4 in_a_7 = vec4(f16x2_values_native(in_a_w3.z), f16x2_values_native(in_a_w3.w));
    vector_halves[at] = uvec4(packFloat2x16(f16vec2(in_a_0[0], in_a_1[0])), packFloat2x16(f16vec2(in_a_2[0], in_a_3[0])), packFloat2x16(f16vec2(in_a_4[0], in_a_5[0])), packFloat2x16(f16vec2(in_a_6[0], in_a_7[0])));
    vector_halves[at + 2u] = uvec4(packFloat2x16(f16vec2(in_a_0[1], in_a_1[1])), packFloat2x16(f16vec2(in_a_2[1], in_a_3[1])), packFloat2x16(f16vec2(in_a_4[1], in_a_5[1])), packFloat2x16(f16vec2(in_a_6[1], in_a_7[1])));
    vector_halves[at + 4u] = uvec4(packFloat2x16(f16vec2(in_a_0[2], in_a_1[2])), packFloat2x16(f16vec2(in_a_2[2], in_a_3[2])), packFloat2x16(f16vec2(in_a_4[2], in_a_5[2])), packFloat2x16(f16vec2(in_a_6[2], in_a_7[2])));
    vector_halves[at + 6u] = uvec4(packFloat2x16(f16vec2(in_a_0[3], in_a_1[3])), packFloat2x16(f16vec2(in_a_2[3], in_a_3[3])), packFloat2x16(f16vec2(in_a_4[3], in_a_5[3])), packFloat2x16(f16vec2(in_a_6[3], in_a_7[3])));
  }
  barrier();
  uint own_row = workgroup * 64u + thread;
  bool inside = thread < 64u && own_row < p.chunks;
  own_row = min(min(own_row, workgroup * 64u + 63u), p.chunks - 1u);
  for (uint tile = 0u; tile < 4u; ++tile) {
    {
      coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
      for (uint round = 0u; round < 4u; ++round) {
        uint k_slice = round * 4u + subgroup;
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
          words[own_words + (u * 4u + own_lane / 8u) * 9u + own_lane % 8u] = in_gate_w0[u];
        }
        [[unroll]] for (uint u = 0u; u < 1u; ++u) {
          uint i = u * 32u + own_lane;
          float in_gate_scale_e = f16x2_values_native(next_scales[u] >> next_shifts[u])[0];
          scales[own_scales + i % 2u * 16u + i / 2u] = in_gate_scale_e;
        }
        controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
        bool ends = round + 1u == 4u;
        uint next_row = first_row;
        uint next_k_slice = ends ? subgroup : k_slice + 4u;
        if (ends) {
          [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            uint row = min(next_row + u * 4u + own_lane / 8u, p.chunks - 1u);
            uint column = next_k_slice * 8u + own_lane % 8u;
            in_up_w0[u] = in_up.w[row * 128u + column];
          }
          [[unroll]] for (uint u = 0u; u < 1u; ++u) {
            uint i = u * 32u + own_lane;
            uint row = min(next_row + i / 2u, p.chunks - 1u);
            uint column = next_k_slice * 8u + i % 2u * 4u;
            uint q = column / 4u;
            uint in_up_scale_i = row * 32u + q;
            next_scales[u] = in_up_scale.w[in_up_scale_i >> 1];
            next_shifts[u] = (in_up_scale_i & 1u) * 16u;
          }
        } else {
          [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            uint row = min(next_row + u * 4u + own_lane / 8u, p.chunks - 1u);
            uint column = next_k_slice * 8u + own_lane % 8u;
            in_gate_w0[u] = in_gate.w[row * 128u + column];
          }
          [[unroll]] for (uint u = 0u; u < 1u; ++u) {
            uint i = u * 32u + own_lane;
            uint row = min(next_row + i / 2u, p.chunks - 1u);
            uint column = next_k_slice * 8u + i % 2u * 4u;
            uint q = column / 4u;
            uint in_gate_scale_i = row * 32u + q;
            next_scales[u] = in_gate_scale.w[in_gate_scale_i >> 1];
            next_shifts[u] = (in_gate_scale_i & 1u) * 16u;
          }
        }
        [[unroll]] for (uint part = 0u; part < 2u; ++part) {
          coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
          [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint fragment = part * 2u + i;
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits;
            coopMatLoad(bits, words, own_words + fragment * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
            uint at = (k_slice * 4u + fragment) * 8u;
            coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> factors[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) coopMatLoad(factors[j], vector_halves, at + j * 2u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            part_sums = coopMatMulAdd(numbers_of(bits, 0u, 0x000f000fu, low, f16vec2(1.0hf), f16vec2(1032.0hf)), factors[0], part_sums);
            part_sums = coopMatMulAdd(numbers_of(bits, 0u, 0x00f000f0u, high, f16vec2(0.0625hf), f16vec2(72.0hf)), factors[1], part_sums);
            part_sums = coopMatMulAdd(numbers_of(bits, 8u, 0x000f000fu, low, f16vec2(1.0hf), f16vec2(1032.0hf)), factors[2], part_sums);
            part_sums = coopMatMulAdd(numbers_of(bits, 8u, 0x00f000f0u, high, f16vec2(0.0625hf), f16vec2(72.0hf)), factors[3], part_sums);
          }
          coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> scale;
          coopMatLoad(scale, scales, own_scales + part * 16u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
          sums = sums + part_sums * scale;
        }
        controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
      }
      coopMatStore(sums, words, own_words, 4u, gl_CooperativeMatrixLayoutColumnMajor);
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
      for (uint i = own_lane; i < 16u; i += 32u) {
        row_parts[subgroup * 64u + tile * 16u + i] = uintBitsToFloat(words[own_words + i / 4u][i % 4u]);
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    }
    {
      coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
      for (uint round = 0u; round < 4u; ++round) {
        uint k_slice = round * 4u + subgroup;
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
          words[own_words + (u * 4u + own_lane / 8u) * 9u + own_lane % 8u] = in_up_w0[u];
        }
        [[unroll]] for (uint u = 0u; u < 1u; ++u) {
          uint i = u * 32u + own_lane;
          float in_up_scale_e = f16x2_values_native(next_scales[u] >> next_shifts[u])[0];
          scales[own_scales + i % 2u * 16u + i / 2u] = in_up_scale_e;
        }
        controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
        bool ends = round + 1u == 4u;
        uint next_row = ends && tile + 1u < 4u ? first_row + 16u : first_row;
        uint next_k_slice = ends ? subgroup : k_slice + 4u;
        if (ends) {
          [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            uint row = min(next_row + u * 4u + own_lane / 8u, p.chunks - 1u);
            uint column = next_k_slice * 8u + own_lane % 8u;
            in_gate_w0[u] = in_gate.w[row * 128u + column];
          }
          [[unroll]] for (uint u = 0u; u < 1u; ++u) {
            uint i = u * 32u + own_lane;
            uint row = min(next_row + i / 2u, p.chunks - 1u);
            uint column = next_k_slice * 8u + i % 2u * 4u;
            uint q = column / 4u;
            uint in_gate_scale_i = row * 32u + q;
            next_scales[u] = in_gate_scale.w[in_gate_scale_i >> 1];
            next_shifts[u] = (in_gate_scale_i & 1u) * 16u;
          }
        } else {
          [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            uint row = min(next_row + u * 4u + own_lane / 8u, p.chunks - 1u);
            uint column = next_k_slice * 8u + own_lane % 8u;
            in_up_w0[u] = in_up.w[row * 128u + column];
          }
          [[unroll]] for (uint u = 0u; u < 1u; ++u) {
            uint i = u * 32u + own_lane;
            uint row = min(next_row + i / 2u, p.chunks - 1u);
            uint column = next_k_slice * 8u + i % 2u * 4u;
            uint q = column / 4u;
            uint in_up_scale_i = row * 32u + q;
            next_scales[u] = in_up_scale.w[in_up_scale_i >> 1];
            next_shifts[u] = (in_up_scale_i & 1u) * 16u;
          }
        }
        [[unroll]] for (uint part = 0u; part < 2u; ++part) {
          coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> part_sums = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
          [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint fragment = part * 2u + i;
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> bits;
            coopMatLoad(bits, words, own_words + fragment * 2u, 9u, gl_CooperativeMatrixLayoutRowMajor);
            uint at = (k_slice * 4u + fragment) * 8u;
            coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> factors[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) coopMatLoad(factors[j], vector_halves, at + j * 2u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            part_sums = coopMatMulAdd(numbers_of(bits, 0u, 0x000f000fu, low, f16vec2(1.0hf), f16vec2(1032.0hf)), factors[0], part_sums);
            part_sums = coopMatMulAdd(numbers_of(bits, 0u, 0x00f000f0u, high, f16vec2(0.0625hf), f16vec2(72.0hf)), factors[1], part_sums);
            part_sums = coopMatMulAdd(numbers_of(bits, 8u, 0x000f000fu, low, f16vec2(1.0hf), f16vec2(1032.0hf)), factors[2], part_sums);
            part_sums = coopMatMulAdd(numbers_of(bits, 8u, 0x00f000f0u, high, f16vec2(0.0625hf), f16vec2(72.0hf)), factors[3], part_sums);
          }
          coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> scale;
          coopMatLoad(scale, scales, own_scales + part * 16u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
          sums = sums + part_sums * scale;
        }
        controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
      }
      coopMatStore(sums, words, own_words, 4u, gl_CooperativeMatrixLayoutColumnMajor);
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
      for (uint i = own_lane; i < 16u; i += 32u) {
        row_parts[256u + subgroup * 64u + tile * 16u + i] = uintBitsToFloat(words[own_words + i / 4u][i % 4u]);
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    }
    first_row += 16u;
  }
  barrier();
  float v17_v = 0.0;
  float v31_v = 0.0;
  if (thread < 64u) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) v17_v += row_parts[i * 64u + thread];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) v31_v += row_parts[256u + i * 64u + thread];
  }
  if (inside) {
    precise float v18 = f16_sigmoid(v17_v);
    precise float v19 = v18 * v17_v;
    precise float out_y_v = v19 * v31_v;
    out_y.w[own_row] = uint16_t(f16x2_bits_native(vec2(out_y_v)));
  }
}
