#include "lowering/custom_function.hpp"

#include "ir/structured.hpp"
#include "lowering/emitter.hpp"

namespace vkfuse::lowering {

namespace {

constexpr std::string_view kCheckHead =
    "#version 450\n#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n";
constexpr std::string_view kPlainHead = "#version 450\n";
constexpr std::string_view kCheckLayout = "layout(local_size_x_id = 0) in;\n";

std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 0x811c9dc5u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return hash;
}

std::string_view check_head(const CustomFunction& function) {
  return function.text.find("int64_t") != std::string::npos ? kCheckHead : kPlainHead;
}

/// The library's own functions that the code calls.
std::string check_prelude(const CustomFunction& function) { return ops::prelude_for(function.text); }

}  // namespace

Result<CustomFunction> custom_function(const ir::Graph& graph, const ir::Node& node, bool native_int64) {
  const auto& custom = std::get<ir::CustomPayload>(node.payload);
  const auto type_of = [&](DType dtype) -> Result<std::string> {
    const ops::RegisterType register_type = ops::register_type_of(dtype);
    if (!native_int64 && (register_type == ops::RegisterType::i64 || register_type == ops::RegisterType::u64)) {
      return unsupported("The custom op '{}' takes or gives {}, and the device has no 64-bit integers.", custom.name,
                         name_of(dtype));
    }
    return std::string(ops::glsl_type(register_type, native_int64));
  };
  CustomFunction function;
  VKF_TRY(result, type_of(node.type.dtype));
  std::string parameters;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    VKF_TRY(type, type_of(graph.node(node.operands[i]).type.dtype));
    parameters += fmt::format("{}{} x{}", i == 0 ? "" : ", ", type, i);
  }
  function.name = fmt::format("custom_{}_{:08x}", custom.name, hash_of(result + "(" + parameters + ")" + custom.code));
  const bool body = ir::is_function_body(custom.code);
  // The code has lines of its own, so that a comment at its end ends there.
  function.text = fmt::format("{} {}({}) {{\n{}{}\n{}}}\n", result, function.name, parameters,
                              body ? "" : "  return (\n", custom.code, body ? "" : "  );\n");
  function.code_begins = body ? 2 : 3;
  return function;
}

Kernel custom_check(const CustomFunction& function) {
  Kernel kernel;
  kernel.name = function.name;
  kernel.glsl = std::string(check_head(function)) + std::string(kCheckLayout) + check_prelude(function) +
                function.text + "void main() {}\n";
  return kernel;
}

int custom_check_line(const CustomFunction& function) {
  const std::string before = std::string(check_head(function)) + std::string(kCheckLayout) + check_prelude(function);
  return static_cast<int>(std::count(before.begin(), before.end(), '\n')) + function.code_begins;
}

Result<Code> Emitter::custom_call(const ir::Node& node, const std::vector<Code>& operands) {
  VKF_TRY(function, custom_function(graph_, node, dialect_.native_int64));
  custom_functions_[function.name] = std::move(function.text);
  return code("{}({})", function.name, listed(operands));
}

}  // namespace vkfuse::lowering
