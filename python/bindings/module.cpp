// The extension module vkfuse._core: the C++ API, and the command.

#include <typeinfo>

#include "bind.hpp"
#include "device.hpp"
#include "spirv/compile.hpp"
#include "tool/command_line.hpp"
#include "vkfuse/vkfuse.h"

namespace vkfuse::python {
namespace {

using namespace nb::literals;

constexpr const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "InvalidArgument";
    case ErrorCode::unsupported: return "Unsupported";
    case ErrorCode::not_found: return "NotFound";
    case ErrorCode::no_device: return "NoDevice";
    case ErrorCode::device_error: return "DeviceError";
    case ErrorCode::device_lost: return "DeviceLost";
    case ErrorCode::out_of_memory: return "OutOfMemory";
    case ErrorCode::io: return "FileError";
    case ErrorCode::internal: return "InternalError";
  }
  return "Error";
}

/// The exception of an Error; one of memory exhaustion that there is no memory for is Python's own.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Failure& failure) {
    const nb::object type = nb::module_::import_("vkfuse._errors").attr(class_of(failure.error().code));
    const nb::object made = type(failure.error().text());
    made.attr("code") = name_of(failure.error().code);
    made.attr("context") = nb::cast(failure.error().context);
    PyErr_SetObject(type.ptr(), made.ptr());
  } catch (const std::bad_cast&) {
    PyErr_Clear();
    PyErr_SetString(PyExc_TypeError,
                    "An argument, or a part of one, has a type that cannot be read, or is a text that is no Unicode.");
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "The host has no memory left.");
  }
}

/// SPIR-V of a compute shader, by the shaderc that is in the package.
nb::bytes compile_glsl(const std::string& glsl, const std::string& name) {
  const spirv::Module module = value_of(without_gil([&] { return spirv::compile_glsl(glsl, name); }));
  return nb::bytes(module.data(), module.size() * sizeof(module[0]));
}

int command(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv;
  for (const std::string& one : arguments) argv.push_back(one.c_str());
  argv.push_back(nullptr);
  return without_gil([&] { return tool::command_line(static_cast<int>(arguments.size()), argv.data()); });
}

}  // namespace
}  // namespace vkfuse::python

NB_MODULE(_core, module) {
  using namespace vkfuse::python;
  using namespace nanobind::literals;
  nanobind::set_leak_warnings(false);  // programs of modules are alive when the interpreter ends
  nanobind::register_exception_translator(translate);
  bind_device(module);
  bind_tensor(module);
  bind_functions(module);
  bind_optimizers(module);
  bind_collectives(module);
  bind_program(module);
  bind_parallel(module);
  bind_stream(module);
  bind_onnx(module);
  module.attr("__version__") = vkf_version();
  module.def("_command", &command, "arguments"_a, "The command `vkfuse`; the first argument is its name.");
  module.def("_compile_glsl", &compile_glsl, "glsl"_a, "name"_a, "SPIR-V of a compute shader, for tests.");
  module.def("_after_fork_in_child", &StreamTurn::forget);
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(&close_callbacks));
}
