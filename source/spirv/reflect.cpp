// The only file that includes SPIRV-Cross (its C shader, which turns exceptions into codes).
#include "spirv/reflect.hpp"

#include <spirv_cross_c.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"

namespace vkfuse::spirv {
namespace {

struct DestroyContext {
  void operator()(spvc_context context) const { spvc_context_destroy(context); }
};

// A parsed module; the context owns everything SPIRV-Cross hands out.
struct Parsed {
  std::unique_ptr<spvc_context_s, DestroyContext> context;
  spvc_compiler compiler = nullptr;

  [[nodiscard]] Error failure(const char* doing) const {
    const char* reason = context ? spvc_context_get_last_error_string(context.get()) : nullptr;
    return unsupported("SPIRV-Cross cannot {} this module: {}", doing,
                       reason && *reason ? reason : "no reason was given.");
  }
};

Result<Parsed> parse(std::span<const std::uint32_t> spirv, spvc_backend backend, const char* doing) {
  spvc_context context = nullptr;
  if (spvc_context_create(&context) != SPVC_SUCCESS) {
    return make_error(ErrorCode::out_of_memory, "SPIRV-Cross could not create a context.");
  }
  Parsed parsed;
  parsed.context.reset(context);
  spvc_parsed_ir ir = nullptr;
  if (spvc_context_parse_spirv(context, spirv.data(), spirv.size(), &ir) != SPVC_SUCCESS ||
      spvc_context_create_compiler(context, backend, ir, SPVC_CAPTURE_MODE_TAKE_OWNERSHIP, &parsed.compiler) !=
          SPVC_SUCCESS) {
    return parsed.failure(doing);
  }
  return parsed;
}

using ResourceList = std::span<const spvc_reflected_resource>;

ResourceList list_of(spvc_resources resources, spvc_resource_type type) {
  const spvc_reflected_resource* list = nullptr;
  std::size_t count = 0;
  if (spvc_resources_get_resource_list_for_type(resources, type, &list, &count) != SPVC_SUCCESS) return {};
  return {list, count};
}

// A qualifier of every member of the block, or of the variable, counts for the buffer.
bool buffer_has(spvc_compiler compiler, spvc_variable_id id, SpvDecoration requested) {
  if (spvc_compiler_has_decoration(compiler, id, requested)) return true;
  const SpvDecoration* decorations = nullptr;
  std::size_t count = 0;
  if (spvc_compiler_get_buffer_block_decorations(compiler, id, &decorations, &count) != SPVC_SUCCESS) return false;
  return std::find(decorations, decorations + count, requested) != decorations + count;
}

void add_bindings(const Parsed& parsed, ResourceList list, bool is_uniform, std::vector<Binding>& bindings) {
  spvc_compiler compiler = parsed.compiler;
  for (const spvc_reflected_resource& resource : list) {
    bindings.push_back({.set = spvc_compiler_get_decoration(compiler, resource.id, SpvDecorationDescriptorSet),
                        .binding = spvc_compiler_get_decoration(compiler, resource.id, SpvDecorationBinding),
                        .name = resource.name ? resource.name : "",
                        .is_uniform = is_uniform,
                        .readonly = is_uniform || buffer_has(compiler, resource.id, SpvDecorationNonWritable),
                        .writeonly = buffer_has(compiler, resource.id, SpvDecorationNonReadable)});
  }
}

bool add_push_constants(const Parsed& parsed, ResourceList list, Interface& shader) {
  for (const spvc_reflected_resource& resource : list) {
    std::size_t bytes = 0;
    const spvc_type type = spvc_compiler_get_type_handle(parsed.compiler, resource.base_type_id);
    if (spvc_compiler_get_declared_struct_size(parsed.compiler, type, &bytes) != SPVC_SUCCESS) return false;
    shader.push_constant_bytes = std::max(shader.push_constant_bytes, static_cast<std::uint32_t>(bytes));
  }
  return true;
}

bool add_specialisation(const Parsed& parsed, Interface& shader) {
  const spvc_specialization_constant* list = nullptr;
  std::size_t count = 0;
  if (spvc_compiler_get_specialization_constants(parsed.compiler, &list, &count) != SPVC_SUCCESS) return false;
  for (std::size_t i = 0; i < count; ++i) shader.specialisation_ids.push_back(list[i].constant_id);
  std::sort(shader.specialisation_ids.begin(), shader.specialisation_ids.end());
  return true;
}

void add_workgroup_size(const Parsed& parsed, Interface& shader) {
  spvc_specialization_constant axis[3] = {};
  spvc_compiler_get_work_group_size_specialization_constants(parsed.compiler, &axis[0], &axis[1], &axis[2]);
  for (unsigned i = 0; i < 3; ++i) {
    shader.workgroup_size[i] =
        spvc_compiler_get_execution_mode_argument_by_index(parsed.compiler, SpvExecutionModeLocalSize, i);
    if (axis[i].id == 0) continue;  // a literal
    shader.workgroup_ids[i] = axis[i].constant_id;
    const spvc_constant constant = spvc_compiler_get_constant_handle(parsed.compiler, axis[i].id);
    shader.workgroup_size[i] = spvc_constant_get_scalar_u32(constant, 0, 0);
  }
}

// Direct3D has no push constants and no count of workgroups: both become constant buffers, whose
// registers the header promises.
bool place_constants_for_hlsl(const Parsed& parsed) {
  spvc_resources resources = nullptr;
  Interface shader;
  if (spvc_compiler_create_shader_resources(parsed.compiler, &resources) != SPVC_SUCCESS ||
      !add_push_constants(parsed, list_of(resources, SPVC_RESOURCE_TYPE_PUSH_CONSTANT), shader)) {
    return false;
  }
  const spvc_hlsl_root_constants whole{0, shader.push_constant_bytes, 0, 0};
  if (shader.push_constant_bytes > 0 &&
      spvc_compiler_hlsl_set_root_constants_layout(parsed.compiler, &whole, 1) != SPVC_SUCCESS) {
    return false;
  }
  const spvc_variable_id workgroups = spvc_compiler_hlsl_remap_num_workgroups_builtin(parsed.compiler);
  if (workgroups != 0) {  // 0: the shader does not ask
    spvc_compiler_set_decoration(parsed.compiler, workgroups, SpvDecorationDescriptorSet, 0);
    spvc_compiler_set_decoration(parsed.compiler, workgroups, SpvDecorationBinding, 1);
  }
  return true;
}

// GLSL functions that SPIRV-Cross calls in HLSL as if it had them.
struct Helper {
  const char* call;
  const char* text;
};
constexpr Helper kHlslHelpers[] = {
    {"uaddCarry(", R"(uint uaddCarry(uint a, uint b, out uint carry)
{
    uint sum = a + b;
    carry = sum < a ? 1u : 0u;
    return sum;
}
)"},
    {"usubBorrow(", R"(uint usubBorrow(uint a, uint b, out uint borrow)
{
    borrow = a < b ? 1u : 0u;
    return a - b;
}
)"},
    {"umulExtended(", R"(void umulExtended(uint a, uint b, out uint high, out uint low)
{
    uint inner = (a & 65535u) * (b & 65535u);
    uint left = (a >> 16) * (b & 65535u) + (inner >> 16);
    uint right = (a & 65535u) * (b >> 16) + (left & 65535u);
    high = (a >> 16) * (b >> 16) + (left >> 16) + (right >> 16);
    low = a * b;
}
)"},
};

std::string with_helpers(const std::string& hlsl) {
  std::string helpers;
  for (const Helper& helper : kHlslHelpers) {
    if (hlsl.find(helper.call) != std::string::npos) helpers += std::string(helper.text) + "\n";
  }
  return helpers + hlsl;
}

bool declares(std::span<const std::uint32_t> spirv, SpvCapability requested) {
  constexpr std::size_t kHeaderWords = 5;
  for (std::size_t at = kHeaderWords; at + 1 < spirv.size(); at += std::max<std::size_t>(1, spirv[at] >> 16)) {
    if ((spirv[at] & 0xffffu) != SpvOpCapability) break;  // capabilities come first
    if (spirv[at + 1] == static_cast<std::uint32_t>(requested)) return true;
  }
  return false;
}

// Shader model 5.1 has neither 16-bit types nor 64-bit integers; in 6.2 buffers are read through
// templates, which fewer compilers know.
unsigned hlsl_model(std::span<const std::uint32_t> spirv) {
  const bool newer = declares(spirv, SpvCapabilityFloat16) || declares(spirv, SpvCapabilityInt16) ||
                     declares(spirv, SpvCapabilityInt64);
  return newer ? 62 : 51;
}

Result<std::string> print(Parsed& parsed, spvc_compiler_options options, const char* doing) {
  const char* text = nullptr;
  if (spvc_compiler_install_compiler_options(parsed.compiler, options) != SPVC_SUCCESS ||
      spvc_compiler_compile(parsed.compiler, &text) != SPVC_SUCCESS) {
    return parsed.failure(doing);
  }
  return std::string(text);
}

}  // namespace

Result<Interface> reflect(std::span<const std::uint32_t> spirv) {
  VKF_TRY(parsed, parse(spirv, SPVC_BACKEND_NONE, "reflect"));
  spvc_resources resources = nullptr;
  if (spvc_compiler_create_shader_resources(parsed.compiler, &resources) != SPVC_SUCCESS) {
    return parsed.failure("reflect");
  }
  Interface shader;
  add_bindings(parsed, list_of(resources, SPVC_RESOURCE_TYPE_STORAGE_BUFFER), false, shader.bindings);
  add_bindings(parsed, list_of(resources, SPVC_RESOURCE_TYPE_UNIFORM_BUFFER), true, shader.bindings);
  std::sort(shader.bindings.begin(), shader.bindings.end(), [](const Binding& a, const Binding& b) {
    return std::pair(a.set, a.binding) < std::pair(b.set, b.binding);
  });
  if (!add_push_constants(parsed, list_of(resources, SPVC_RESOURCE_TYPE_PUSH_CONSTANT), shader) ||
      !add_specialisation(parsed, shader)) {
    return parsed.failure("reflect");
  }
  add_workgroup_size(parsed, shader);
  return shader;
}

Result<std::string> print_msl(std::span<const std::uint32_t> spirv) {
  VKF_TRY(parsed, parse(spirv, SPVC_BACKEND_MSL, "print as Metal"));
  // SPIRV-Cross notices doubles in buffers only.
  if (declares(spirv, SpvCapabilityFloat64))
    return unsupported("SPIRV-Cross cannot print this module as Metal, which has no double.");
  spvc_compiler_options options = nullptr;
  if (spvc_compiler_create_compiler_options(parsed.compiler, &options) != SPVC_SUCCESS ||
      spvc_compiler_options_set_uint(options, SPVC_COMPILER_OPTION_MSL_VERSION, SPVC_MAKE_MSL_VERSION(2, 2, 0)) !=
          SPVC_SUCCESS) {
    return parsed.failure("print as Metal");
  }
  return print(parsed, options, "print as Metal");
}

Result<std::string> print_hlsl(std::span<const std::uint32_t> spirv) {
  if (declares(spirv, SpvCapabilityGroupNonUniform)) {
    return unsupported(
        "A kernel that reduces across the threads of a subgroup asks for its number, which HLSL does not know; the "
        "kernel "
        "with feature tier T1 disabled prints.");
  }
  VKF_TRY(parsed, parse(spirv, SPVC_BACKEND_HLSL, "print as HLSL"));
  const unsigned model = hlsl_model(spirv);
  spvc_compiler_options options = nullptr;
  if (spvc_compiler_create_compiler_options(parsed.compiler, &options) != SPVC_SUCCESS ||
      spvc_compiler_options_set_uint(options, SPVC_COMPILER_OPTION_HLSL_SHADER_MODEL, model) != SPVC_SUCCESS ||
      spvc_compiler_options_set_bool(options, SPVC_COMPILER_OPTION_HLSL_ENABLE_16BIT_TYPES, model >= 62) !=
          SPVC_SUCCESS ||
      !place_constants_for_hlsl(parsed)) {
    return parsed.failure("print as HLSL");
  }
  VKF_TRY(text, print(parsed, options, "print as HLSL"));
  return with_helpers(text);
}

}  // namespace vkfuse::spirv
