// The parts of the module, and how options are given by name.
#pragma once

#include <functional>
#include <vector>

#include "convert.hpp"

namespace vkfuse::python {

void bind_device(nb::module_& module);
void bind_tensor(nb::module_& module);
void bind_functions(nb::module_& module);
void bind_optimizers(nb::module_& module);
void bind_collectives(nb::module_& module);
void bind_program(nb::module_& module);
void bind_parallel(nb::module_& module);
void bind_stream(nb::module_& module);
void bind_onnx(nb::module_& module);

/// One option and what reads it.
struct Option {
  const char* name;
  std::function<void(nb::handle value)> take;
};

/// Reads each argument given by name; None is left out. TypeError for a name that is none of the options.
void take_options(const nb::kwargs& given, const char* function, const std::vector<Option>& options);

/// A text, or a sequence of them.
std::vector<std::string> to_texts(nb::handle object, const char* what);
std::string to_text(nb::handle object, const char* what);
/// A text or an os.PathLike.
std::string to_path_text(nb::handle object);
Callback to_callback(nb::handle object, const char* what);
/// Whether it is true, as `if` in Python has it.
bool to_truth(nb::handle object);
double to_number(nb::handle object, const char* what);

/// Of the options of a compilation those that are given.
CompileOptions compile_options(const nb::kwargs& given, const char* function, const std::vector<Option>& more = {});

/// Sizes of symbols, by name.
Symbols to_symbols(const nb::kwargs& given);
Stage to_stage(const std::string& name);

}  // namespace vkfuse::python
