// What a compute shader's interface is, and how it reads in other shading languages.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vkfuse/result.hpp"

namespace vkfuse::spirv {

struct Binding {
  std::uint32_t set = 0;
  std::uint32_t binding = 0;
  std::string name;         ///< of the block, e.g. "A" in `buffer A { ... } a;`
  bool is_uniform = false;  ///< a uniform buffer, else a storage buffer
  bool readonly = false;
  bool writeonly = false;
};

struct Interface {
  std::vector<Binding> bindings;  ///< ordered by set, then binding
  std::uint32_t push_constant_bytes = 0;
  std::vector<std::uint32_t> specialisation_ids;  ///< ascending
  /// The literal size, or the default of the specialisation constant of each axis.
  std::array<std::uint32_t, 3> workgroup_size = {1, 1, 1};
  /// The constant_id that sets each axis, or kNoId.
  std::array<std::uint32_t, 3> workgroup_ids = {kNoId, kNoId, kNoId};

  static constexpr std::uint32_t kNoId = 0xFFFFFFFF;
};

/// ErrorCode::unsupported when the linked SPIRV-Cross does not know something in the module
/// (cooperative matrix in old releases): the caller then trusts its own record.
Result<Interface> reflect(std::span<const std::uint32_t> spirv);

/// Metal (2.2) and HLSL (shader model 5.1, or 6.2 for 16-bit types and 64-bit integers) text of the module;
/// ErrorCode::unsupported with the reason when it has none, e.g. a 64-bit float in Metal. In HLSL buffer N is register
/// tN or uN, the push constants are the constant buffer at b0, and gl_NumWorkGroups is a uint3 at b1.
Result<std::string> print_msl(std::span<const std::uint32_t> spirv);
Result<std::string> print_hlsl(std::span<const std::uint32_t> spirv);

}  // namespace vkfuse::spirv
