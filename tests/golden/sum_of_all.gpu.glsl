#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "sum of everything": mul, reduce_sum, sqrt
// 1024 threads per row, 1 row per workgroup, 4 elements per chunk, 512 chunks per thread, 128 workgroups share a row
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f32[1024, 2048]
layout(set = 0, binding = 1) writeonly buffer Buffer1 { uint w[]; } out_norm;  // %3 : f32[]
layout(set = 0, binding = 2) coherent buffer Buffer2 { uint w[]; } partials;  // of the workgroups that share a row
layout(set = 0, binding = 3) coherent buffer Buffer3 { uint w[]; } counts;  // of the workgroups that have left theirs

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

float f32_nan() {
  return uintBitsToFloat(0x7fc00000u);
}

// Vulkan's precision inside the domain; zeros, infinity and NaN give themselves, negatives NaN.
float f32_sqrt(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude == 0u || magnitude > 0x7f800000u) return x;
  if (f32_is_negative(x)) return f32_nan();
  return magnitude == 0x7f800000u ? x : sqrt(x);
}

shared float v2_shared[32];
shared uint arrived;

void v2_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(float in_x, inout float v2) {
  precise float v1 = in_x * in_x;
  v2_join(v2, v1);
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint part = workgroup % 128u;
  workgroup /= 128u;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint reduction_thread = thread;
  uint row = workgroup;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  uint part_begin = part * 4096u;
  uint part_end = min(part_begin + 4096u, 524288u);
  float v2 = 0.0;
  for (uint first = part_begin + reduction_thread; first < part_end; first += 2048u) {
    uvec4 in_x_w0[2];
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = min(first + u * 1024u, part_end - 1u);
      in_x_w0[u] = in_x.w[column];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = first + u * 1024u;
      if (column < part_end) {
        vec4 in_x_0 = uintBitsToFloat(in_x_w0[u]);
        pass0(in_x_0[0], v2);
        pass0(in_x_0[1], v2);
        pass0(in_x_0[2], v2);
        pass0(in_x_0[3], v2);
      }
    }
  }
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v2_join(v2, subgroupShuffleXor(v2, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v2_shared[gl_SubgroupID] = v2;
  }
  barrier();
  v2 = v2_shared[gl_SubgroupInvocationID];
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v2_join(v2, subgroupShuffleXor(v2, mask));
  }
  if (inside && reduction_thread == 0u) {
    partials.w[row * 128u + part] = floatBitsToUint(v2);
  }
  // What this workgroup has left is seen by the last one of the row, which goes on.
  memoryBarrierBuffer();
  barrier();
  if (thread == 0u) {
    memoryBarrierBuffer();
    arrived = atomicAdd(counts.w[workgroup], 1u);
    memoryBarrierBuffer();
  }
  barrier();
  if (arrived < 127u) return;
  memoryBarrierBuffer();
  if (thread == 0u) counts.w[workgroup] = 0u;  // for the next run
  v2 = 0.0;
  for (uint k = reduction_thread; k < 128u; k += 1024u) {
    v2_join(v2, uintBitsToFloat(partials.w[row * 128u + k]));
  }
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v2_join(v2, subgroupShuffleXor(v2, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v2_shared[gl_SubgroupID] = v2;
  }
  barrier();
  if (gl_SubgroupID > 0u) return;  // the first subgroup joins what all have found
  v2 = v2_shared[gl_SubgroupInvocationID];
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v2_join(v2, subgroupShuffleXor(v2, mask));
  }
  if (inside && reduction_thread == 0u) {
    precise float out_norm_v = f32_sqrt(v2);
    out_norm.w[0u] = floatBitsToUint(out_norm_v);
  }
}
